// SPDX-License-Identifier: Apache-2.0
// Equations: Transformers' modeling_vit.py and modeling_deit.py; the pooled classifier: PyCls.
#include "src/models/vit_model.h"

#include <algorithm>
#include <utility>

#include "src/models/config_values.h"
#include "src/models/recorder.h"

namespace bascule {
namespace {

constexpr char kClassToken[] = "embeddings.cls_token", kPositions[] = "embeddings.position_embeddings";

// The two streams between layers, which normalise before each part: z is the residual sum, `normed` its norm.
struct ViTState {
  Tensor z, normed;
  SampleRows rows;
};

struct ViTRecorder : Recorder {
  ViTRecorder(Graph& target, const ViTVariant& model_variant, const ViTConfig& model_config,
              const RecordOptions& options)
      : Recorder{target, {}, model_config.initializer_range, options.dropout},
        variant(model_variant),
        config(model_config),
        prefix(model_variant.prefix()) {
    if (std::find(options.frozen.begin(), options.frozen.end(), variant.body) != options.frozen.end())
      frozen = {prefix};
    layer = {config.hidden_size,    config.num_attention_heads, config.intermediate_size,           config.hidden_act,
             config.layer_norm_eps, config.hidden_dropout_prob, config.attention_probs_dropout_prob};
  }
  DropoutPlace drop_hidden() { return drop(config.hidden_dropout_prob); }

  std::string layer_name(std::int64_t i) const { return prefix + "encoder.layer." + std::to_string(i); }

  const ViTVariant& variant;
  const ViTConfig& config;
  std::string prefix;
  LayerShape layer;
};

// Rows of a picture: its patches, behind the class rows. What does not fill a patch is cut off.
std::int64_t rows_of_picture(const ViTVariant& variant, const ViTConfig& config, std::int64_t height,
                             std::int64_t width) {
  return variant.class_row_count() + (height / config.patch_size) * (width / config.patch_size);
}

// The norm of the residual sum before layer i; after the last layer, the final norm.
std::string next_norm(const ViTRecorder& r, std::int64_t i) {
  return i < r.config.num_hidden_layers ? r.layer_name(i) + ".layernorm_before" : r.prefix + "layernorm";
}

ViTState record_embeddings(ViTRecorder& r, std::int64_t height, std::int64_t width) {
  const ViTConfig& config = r.config;
  const std::string name = r.prefix + "embeddings", projection = name + ".patch_embeddings.projection";
  r.graph.set_scope(name);
  const std::int64_t p = config.patch_size, side = config.image_size / p, cols = config.hidden_size;
  const std::int64_t patches = (height / p) * (width / p);
  const Tensor pixels =
      extract_patches(r.graph, name + ".patches", r.graph.field("pixels"), config.num_channels, height, width, p);
  const Tensor kernel = r.shaped(projection + ".weight", {cols, config.num_channels, p, p}, cols, r.deviation);
  const Tensor patch = linear(r.graph, projection, pixels, kernel, r.bias(projection + ".bias", cols));
  std::vector<std::string> tokens;
  for (const std::string& row : r.variant.class_rows) tokens.push_back(name + "." + row);
  const Tensor class_rows = tokens.empty() ? Tensor{} : r.token_rows(tokens, cols, r.deviation);
  const std::int64_t before = r.variant.class_row_count(), positions = before + side * side;
  Tensor position = r.shaped(name + ".position_embeddings", {1, positions, cols}, positions, r.deviation);
  // As the reference decides: the table is left alone if the picture is square and has as many patches.
  if (height != width || patches != side * side) {
    position = resize_positions(r.graph, name + ".resized", position, side, height / p, width / p, before);
  }
  const SampleRows rows = r.image_rows(rows_of_picture(r.variant, config, height, width));
  const Tensor z =
      dropout(r.graph, name + ".dropout", image_embedding(r.graph, name, patch, class_rows, position, patches),
              r.drop_hidden(), rows.row_keys);
  return {z, norm(r, next_norm(r, 0), z, config.layer_norm_eps), rows};
}

// first_only: for the last layer, of which the classifier reads only each sample's first row. Keys and values still
// come from all rows.
ViTState record_layer(ViTRecorder& r, std::int64_t i, ViTState state, bool first_only) {
  const std::string name = r.layer_name(i);
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

// Of a picture's last rows, or of its first one alone.
Tensor record_logits(ViTRecorder& r, const ViTState& state, bool is_first_alone) {
  const std::vector<std::string>& classifiers = r.variant.classifiers;
  const std::int64_t labels = r.config.num_labels;
  r.graph.set_scope("classifier");
  if (is_first_alone) return dense(r, classifiers.front(), state.normed, labels);
  if (r.variant.class_rows.empty())
    return dense(r, classifiers.front(), mean_rows(r.graph, "mean", state.normed, state.rows), labels);
  Tensor sum;
  for (std::size_t i = 0; i < classifiers.size(); ++i) {
    const Tensor row =
        numbered_rows(r.graph, classifiers[i] + ".row", state.normed, state.rows, static_cast<std::int64_t>(i));
    const Tensor logits = dense(r, classifiers[i], row, labels);
    sum = sum ? add(r.graph, "sum", sum, logits) : logits;
  }
  return scale(r.graph, "mean", sum, 1.0f / static_cast<float>(classifiers.size()));
}

}  // namespace

ViTModel::ViTModel(const ViTVariant& variant, const ViTConfig& config)
    : variant_(variant), prefix_(variant.prefix()), config_(config) {}

ViTModel::ViTModel(const ViTVariant& variant, const ViTConfig& config, const ModelSource& source,
                   std::int64_t file_side)
    : ViTModel(variant, config) {
  const auto has = [&](const std::string& tensor) {
    return source.has_weights && (source.has_weights(prefix_ + tensor) || source.has_weights(tensor));
  };
  file_grid_ = file_side / config.patch_size;
  drops_class_row_ = is_pooled() && has(kClassToken);
  has_new_side_ = file_side != config.image_size;
  resizes_table_ = file_grid_ != grid() && has(kPositions);
  has_new_classes_ = !source.classes.empty();
  if (!has_new_classes_) return;
  config_.label_names = source.classes;
  config_.num_labels = static_cast<std::int64_t>(source.classes.size());
}

FileNames ViTModel::file_names() const {
  // Transformers 5 within, and what it saves with save_original_format = False.
  static constexpr NameChange kChanges[] = {{"encoder.layer.", "layers."},
                                            {".attention.attention.query", ".attention.q_proj"},
                                            {".attention.attention.key", ".attention.k_proj"},
                                            {".attention.attention.value", ".attention.v_proj"},
                                            {".attention.output.dense", ".attention.o_proj"},
                                            {".intermediate.dense", ".mlp.fc1"},
                                            {".output.dense", ".mlp.fc2"}};
  return {prefix_, kChanges};
}

bool ViTModel::may_be_fresh(const std::string& tensor) const {
  return std::any_of(variant_.classifiers.begin(), variant_.classifiers.end(),
                     [&](const std::string& name) { return tensor.rfind(name + ".", 0) == 0; });
}

ModelCardWords ViTModel::card() const {
  return {variant_.kind,
          {variant_.body, "image-classification"},
          "image-classification",
          variant_.processor,
          "Evaluation resizes the shorter side of a picture in floating point and crops the centre "
          "(`data.interpolation`, `data.eval_crop_ratio`); the processor stretches the whole picture to the sides "
          "that its file names, on bytes. `bascule classify` prepares pictures as the evaluation did."};
}

ModelInputs ViTModel::inputs() const {
  ModelInputs inputs;
  inputs.image_side = config_.image_size;
  inputs.image_channels = config_.num_channels;
  inputs.picture_rows = grid() * grid() + variant_.class_row_count();
  inputs.classes = config_.num_labels;
  inputs.class_names = config_.label_names;
  return inputs;
}

std::vector<std::string> ViTModel::notes() const {
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

Model::TensorChange ViTModel::change_of(const std::string& tensor, const std::vector<std::int64_t>& shape) const {
  const std::int64_t cols = config_.hidden_size, stored = file_grid_, wanted = grid();
  const std::int64_t dropped = drops_class_row_ ? 1 : 0, kept = variant_.class_row_count();
  const std::vector<std::int64_t> stored_shape = {1, dropped + kept + stored * stored, cols};
  if (tensor != prefix_ + kPositions || shape != stored_shape) return {};
  return [=](float* to, const float* from) {
    resize_position_values(to, from + dropped * cols, stored, wanted, wanted, cols, kept);
  };
}

void ViTModel::complete_config(Json* config) const {
  if (variant_.code.file != nullptr) {
    const std::string file = variant_.code.file;
    const std::string module = file.substr(0, file.rfind('.'));
    (*config)["auto_map"] = {{variant_.code.auto_class, module + "." + variant_.architecture}};
  }
  if (has_new_side_) (*config)["image_size"] = config_.image_size;
  if (has_new_classes_) write_class_names(config_.label_names, config);
}

Fields ViTModel::fields(const RecordOptions& options) const {
  const std::int64_t height = height_of(options), width = width_of(options);
  const Extent samples = rows_per_sample(1), rows = rows_per_sample(rows_of_picture(variant_, config_, height, width));
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

Recording ViTModel::record(Graph& graph, Use use, const RecordOptions& options) const {
  ViTRecorder r(graph, variant_, config_, options);
  const bool reads_first_alone = !is_pooled() && variant_.classifiers.size() == 1;
  ViTState state = record_embeddings(r, height_of(options), width_of(options));
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    state = record_layer(r, i, state, reads_first_alone && i + 1 == config_.num_hidden_layers);
  }
  const Tensor logits = record_logits(r, state, reads_first_alone);
  MixedLabels mixed;
  if (options.mixed_labels) mixed = {graph.field("mixed_labels"), graph.field("label_shares")};
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing, mixed);
  Recording recording;
  recording.losses = {{"loss", loss.loss, kSamples}};
  recording.outputs = {{"hits", loss.hits}, {"logits", logits}};
  graph.keep(logits);
  if (use == Use::kReference) graph.keep(state.normed);
  recording.reference = {
      {"last_hidden_state", {state.normed}, reads_first_alone ? ReferenceRows::kFirstOfSample : ReferenceRows::kAll},
      {"logits", {logits}}};
  return recording;
}

std::unique_ptr<Model> open_vit_model(const ViTVariant& variant, const ModelSource& source) {
  const std::int64_t file_side = read_vit_config(source.config_path).image_size;
  return std::make_unique<ViTModel>(variant, read_vit_config(source.config_path, source.image_size), source, file_side);
}

FamilyHead picture_head(const char* name, const ViTVariant& variant) {
  FamilyHead head;
  head.words.name = name;
  head.words.reads_labels = head.words.has_classes = head.words.mixes_labels = true;
  head.architecture = variant.architecture;
  head.judge = "classes";
  head.names_classes = true;
  head.smooths_evaluation = false;
  head.command = "classify";
  return head;
}

Family picture_family(const ViTVariant& variant, std::vector<FamilyHead> heads, PictureFit fit,
                      decltype(Family::open) open, decltype(Family::small_models) small_models) {
  Family family = {variant.body, variant.processor, std::move(heads), {variant.body}, {}, open};
  family.small_models = small_models;
  family.needs_processor_file = true;
  family.resizes_pictures = true;
  family.processor_fit = fit;
  return family;
}

ViTConfig small_vit_config() {
  ViTConfig config;
  config.hidden_size = 60;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 100;
  config.image_size = 30;
  config.patch_size = 7;
  config.num_labels = 5;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1f;
  return config;
}

}  // namespace bascule
