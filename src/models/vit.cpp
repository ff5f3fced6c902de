// SPDX-License-Identifier: Apache-2.0
// ViT as a family: image classification. Equations: Transformers' modeling_vit.py; the pooled classifier: PyCls.
#include <algorithm>
#include <cstring>

#include "src/models/config_values.h"
#include "src/models/families.h"
#include "src/models/recorder.h"
#include "src/models/vit_config.h"

namespace bascule {

extern const Family kViT;

namespace {

constexpr char kViTHead[] = "image_classification", kViTBody[] = "vit", kViTPrefix[] = "vit.",
               kViTClassifier[] = "classifier", kViTArchitecture[] = "ViTForImageClassification";
constexpr char kClassToken[] = "vit.embeddings.cls_token", kPositions[] = "vit.embeddings.position_embeddings";

// The two streams between layers, which normalise before each part: z is the residual sum, `normed` its norm.
struct ViTState {
  Tensor z, normed;
  SampleRows rows;
};

struct ViTRecorder : Recorder {
  ViTRecorder(Graph& target, const ViTConfig& model_config, const RecordOptions& options)
      : Recorder{target, {}, model_config.initializer_range, options.dropout}, config(model_config) {
    if (std::find(options.frozen.begin(), options.frozen.end(), kViTBody) != options.frozen.end())
      frozen = {kViTPrefix};
    layer = {config.hidden_size,    config.num_attention_heads, config.intermediate_size,           config.hidden_act,
             config.layer_norm_eps, config.hidden_dropout_prob, config.attention_probs_dropout_prob};
  }
  DropoutPlace drop_hidden() { return drop(config.hidden_dropout_prob); }

  const ViTConfig& config;
  LayerShape layer;
};

std::string layer_name(std::int64_t i) { return std::string(kViTPrefix) + "encoder.layer." + std::to_string(i); }

// The norm of the residual sum before layer i; after the last layer, the final norm.
std::string next_norm(const ViTRecorder& r, std::int64_t i) {
  return i < r.config.num_hidden_layers ? layer_name(i) + ".layernorm_before" : std::string(kViTPrefix) + "layernorm";
}

ViTState record_embeddings(ViTRecorder& r, std::int64_t height, std::int64_t width) {
  const ViTConfig& config = r.config;
  const std::string name = std::string(kViTPrefix) + "embeddings", projection = name + ".patch_embeddings.projection";
  r.graph.set_scope(name);
  const std::int64_t p = config.patch_size, side = config.image_size / p, cols = config.hidden_size;
  const std::int64_t patches = (height / p) * (width / p);
  const Tensor pixels =
      extract_patches(r.graph, name + ".patches", r.graph.field("pixels"), config.num_channels, height, width, p);
  const Tensor kernel = r.shaped(projection + ".weight", {cols, config.num_channels, p, p}, cols, r.deviation);
  const Tensor patch = linear(r.graph, projection, pixels, kernel, r.bias(projection + ".bias", cols));
  const bool has_class_row = config.class_rows() == 1;
  const Tensor class_row = has_class_row ? r.shaped(name + ".cls_token", {1, 1, cols}, 1, r.deviation) : Tensor{};
  const std::int64_t positions = side * side + config.class_rows();
  Tensor position = r.shaped(name + ".position_embeddings", {1, positions, cols}, positions, r.deviation);
  // As the reference decides: the table is left alone if the picture is square and has as many patches.
  if (height != width || patches != side * side) {
    position = resize_positions(r.graph, name + ".resized", position, side, height / p, width / p, has_class_row);
  }
  const SampleRows rows = r.image_rows(config.rows(height, width));
  const Tensor z =
      dropout(r.graph, name + ".dropout", image_embedding(r.graph, name, patch, class_row, position, patches),
              r.drop_hidden(), rows.row_keys);
  return {z, norm(r, next_norm(r, 0), z, config.layer_norm_eps), rows};
}

// first_only: for the last layer, of which the classifier reads only each sample's first row. Keys and values still
// come from all rows.
ViTState record_layer(ViTRecorder& r, std::int64_t i, ViTState state, bool first_only) {
  const std::string name = layer_name(i);
  r.graph.set_scope(name);
  const RowStream keys{state.normed, state.rows};
  RowStream queries = keys;
  if (first_only) {
    queries = {first_rows(r.graph, name + ".first", state.normed, state.rows), r.first_rows()};
    state.z = first_rows(r.graph, name + ".first_z", state.z, state.rows);
  }
  const Tensor context = projected_attention(r, name + ".attention", name + ".attention.attention.", r.layer, queries,
                                             keys, r.config.qkv_bias);
  const Tensor a = dense(r, name + ".attention.output.dense", context, r.layer.width);
  const Normalized middle =
      add_norm(r, name + ".layernorm_after", state.z, a, r.layer.epsilon, r.drop_hidden(), queries.rows.row_keys);
  const Tensor up = dense(r, name + ".intermediate.dense", middle.y, r.layer.intermediate);
  const Tensor m = dense(r, name + ".output.dense",
                         activation(r.graph, name + ".intermediate.act", up, r.layer.activation), r.layer.width);
  const Normalized next =
      add_norm(r, next_norm(r, i + 1), middle.sum, m, r.layer.epsilon, r.drop_hidden(), queries.rows.row_keys);
  return {next.sum, next.y, queries.rows};
}

class ViT final : public Model {
 public:
  explicit ViT(const ViTConfig& config) : config_(config) {}
  // file_side: image_size of config.json, which the source's position table is for.
  ViT(const ViTConfig& config, const ModelSource& source, std::int64_t file_side)
      : config_(config), file_grid_(file_side / config.patch_size), has_new_classes_(!source.classes.empty()) {
    const auto has = [&source](const std::string& tensor) { return source.has_weights && source.has_weights(tensor); };
    drops_class_row_ = is_pooled() && (has(kClassToken) || has(kClassToken + std::strlen(kViTPrefix)));
    has_new_side_ = file_side != config.image_size;
    resizes_table_ = file_grid_ != grid() && (has(kPositions) || has(kPositions + std::strlen(kViTPrefix)));
    if (!has_new_classes_) return;
    config_.label_names = source.classes;
    config_.num_labels = static_cast<std::int64_t>(source.classes.size());
  }

  const char* architecture() const override { return is_pooled() ? kPooledViTClass : kViTArchitecture; }
  const char* body_prefix() const override { return kViTPrefix; }
  FileNames file_names() const override {
    // Transformers 5 within, and what it saves with save_original_format = False.
    static constexpr NameChange kChanges[] = {{"encoder.layer.", "layers."},
                                              {".attention.attention.query", ".attention.q_proj"},
                                              {".attention.attention.key", ".attention.k_proj"},
                                              {".attention.attention.value", ".attention.v_proj"},
                                              {".attention.output.dense", ".attention.o_proj"},
                                              {".intermediate.dense", ".mlp.fc1"},
                                              {".output.dense", ".mlp.fc2"}};
    return {kViTPrefix, kChanges};
  }
  bool may_be_fresh(const std::string& tensor) const override { return tensor.rfind("classifier.", 0) == 0; }
  bool depends_on_classes(const std::string& tensor) const override { return may_be_fresh(tensor); }
  ModelCode code() const override {
    if (!is_pooled()) return {};
    return {kPooledViTFile, kPooledViTCode, kPooledViTAutoClass};
  }
  void complete_config(Json* config) const override;
  std::vector<std::string> notes() const override;
  TensorChange change_of(const std::string& tensor, const std::vector<std::int64_t>& shape) const override;
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override {
    return {"ViT",
            {"vit", "image-classification"},
            "image-classification",
            "ViTImageProcessor",
            "Evaluation resizes the shorter side of a picture in floating point and crops the centre "
            "(`data.interpolation`, `data.eval_crop_ratio`); the processor stretches the whole picture to a square, on "
            "bytes. `bascule classify` prepares pictures as the evaluation did."};
  }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.image_side = config_.image_size;
    inputs.image_channels = config_.num_channels;
    inputs.classes = config_.num_labels;
    inputs.class_names = config_.label_names;
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override;
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  std::int64_t grid() const { return config_.image_size / config_.patch_size; }  // patches a side
  bool is_pooled() const { return config_.classifier == ViTClassifier::kPooled; }
  std::int64_t height_of(const RecordOptions& options) const {
    return options.height > 0 ? options.height : config_.image_size;
  }
  std::int64_t width_of(const RecordOptions& options) const {
    return options.width > 0 ? options.width : config_.image_size;
  }

  ViTConfig config_;
  std::int64_t file_grid_ = 0;
  bool has_new_classes_ = false, has_new_side_ = false, drops_class_row_ = false, resizes_table_ = false;
};

std::vector<std::string> ViT::notes() const {
  std::vector<std::string> notes;
  const std::int64_t side = config_.image_size, left = side % config_.patch_size;
  if (drops_class_row_)
    notes.push_back("dropping the class token and its position: this classifier averages the patches");
  if (resizes_table_) {
    const auto square = [](std::int64_t n) { return std::to_string(n) + " x " + std::to_string(n); };
    notes.push_back("position table resized from " + square(file_grid_) + " to " + square(grid()) +
                    " patches, for pictures of " + square(side) + " pixels");
  }
  if (left > 0)
    notes.push_back("the image size " + std::to_string(side) + " is not a multiple of the patch size " +
                    std::to_string(config_.patch_size) + ": ignoring the last " +
                    (left == 1 ? "pixel" : std::to_string(left) + " pixels") + " at the right and bottom");
  return notes;
}

Model::TensorChange ViT::change_of(const std::string& tensor, const std::vector<std::int64_t>& shape) const {
  const std::int64_t cols = config_.hidden_size, stored = file_grid_, wanted = grid();
  const std::int64_t dropped = drops_class_row_ ? 1 : 0, kept = config_.class_rows();
  const std::vector<std::int64_t> stored_shape = {1, dropped + kept + stored * stored, cols};
  if (tensor != kPositions || shape != stored_shape) return {};
  return [=](float* to, const float* from) {
    resize_position_values(to, from + dropped * cols, stored, wanted, wanted, cols, kept > 0);
  };
}

void ViT::complete_config(Json* config) const {
  if (is_pooled()) {
    const std::string file = kPooledViTFile;
    const std::string module = file.substr(0, file.rfind('.'));
    (*config)["auto_map"] = {{kPooledViTAutoClass, module + "." + kPooledViTClass}};
  }
  if (has_new_side_) (*config)["image_size"] = config_.image_size;
  if (has_new_classes_) write_class_names(config_.label_names, config);
}

Fields ViT::fields(const RecordOptions& options) const {
  const std::int64_t height = height_of(options), width = width_of(options);
  const Extent samples = rows_per_sample(1), rows = rows_per_sample(config_.rows(height, width));
  Fields fields = {
      {"pixels", DType::kFloat32, samples, config_.num_channels * height * width, FieldSource::kPixels},
      {"labels", DType::kInt32, samples, 1, FieldSource::kClassLabels},
  };
  if (options.mixed_labels) {
    fields.push_back({"mixed_labels", DType::kInt32, samples, 1, FieldSource::kMixedLabels});
    fields.push_back({"label_shares", DType::kFloat32, samples, 1, FieldSource::kLabelShares});
  }
  if (options.dropout) {
    fields.push_back({"image_row_keys", DType::kInt64, rows, 1, FieldSource::kImageRowKeys});
    fields.push_back({"sample_keys", DType::kInt64, samples, 1, FieldSource::kSampleKeys});
  }
  return fields;
}

Recording ViT::record(Graph& graph, Use use, const RecordOptions& options) const {
  ViTRecorder r(graph, config_, options);
  const bool is_token = !is_pooled();
  ViTState state = record_embeddings(r, height_of(options), width_of(options));
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    state = record_layer(r, i, state, is_token && i + 1 == config_.num_hidden_layers);
  }
  graph.set_scope(kViTClassifier);
  const Tensor rows = is_token ? state.normed : mean_rows(graph, "mean", state.normed, state.rows);
  const Tensor logits = dense(r, kViTClassifier, rows, config_.num_labels);
  MixedLabels mixed;
  if (options.mixed_labels) mixed = {graph.field("mixed_labels"), graph.field("label_shares")};
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing, mixed);
  Recording recording;
  recording.losses = {{"loss", loss.loss, kSamples}};
  recording.outputs = {{"hits", loss.hits}, {"logits", logits}};
  graph.keep(logits);
  if (use == Use::kReference) graph.keep(state.normed);
  recording.reference = {
      {"last_hidden_state", {state.normed}, is_token ? ReferenceRows::kFirstOfSample : ReferenceRows::kAll},
      {"logits", {logits}}};
  return recording;
}

FamilyHead vit_head() {
  FamilyHead head;
  head.words.name = kViTHead;
  head.words.reads_labels = head.words.has_classes = head.words.mixes_labels = true;
  head.architecture = kViTArchitecture;
  head.judge = "classes";
  head.names_classes = true;
  head.smooths_evaluation = false;
  head.command = "classify";
  return head;
}

// Both classifiers; rates of dropout, which the published files set to 0; heads that fill no vector register.
std::vector<std::unique_ptr<Model>> small_vit_models() {
  ViTConfig token;
  token.hidden_size = 60;
  token.num_hidden_layers = 2;
  token.num_attention_heads = 3;
  token.intermediate_size = 100;
  token.image_size = 30;
  token.patch_size = 7;
  token.num_labels = 5;
  token.hidden_dropout_prob = token.attention_probs_dropout_prob = 0.1f;
  ViTConfig pooled = token;
  pooled.classifier = ViTClassifier::kPooled;
  pooled.qkv_bias = false;
  pooled.hidden_act = Activation::kRelu;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<ViT>(token));
  models.push_back(std::make_unique<ViT>(pooled));
  return models;
}

std::unique_ptr<Model> open_vit(const ModelSource& source, const std::string& head) {
  if (head != kViTHead) refuse_head(kViT, "ViT", head, source.config_path);
  const std::int64_t file_side = read_vit_config(source.config_path).image_size;
  return std::make_unique<ViT>(read_vit_config(source.config_path, source.image_size), source, file_side);
}

Family vit() {
  Family family = {"vit", "ViTImageProcessor", {vit_head()}, {kViTBody}, {}, open_vit};
  family.small_models = small_vit_models;
  family.needs_processor_file = true;
  family.resizes_pictures = true;
  family.processor_makes_squares = true;
  return family;
}

}  // namespace

const Family kViT = vit();

}  // namespace bascule
