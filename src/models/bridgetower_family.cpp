// SPDX-License-Identifier: Apache-2.0
// BridgeTower as a family: contrastive retrieval, image-text matching and masked language modelling on one body.
#include "src/models/bridgetower.h"

#include <algorithm>
#include <string>

#include "src/models/families.h"
#include "src/models/recorder.h"
#include "src/models/towers.h"

namespace bascule {

extern const Family kBridgeTower;

namespace {

constexpr char kVision[] = "vision_model", kText[] = "text_model", kTextPooler[] = "text_pooler";

constexpr char kWordDecoder[] = "mlm_score.decoder.weight";

FileNames names_of(const BridgeTowerConfig& config) {
  FileNames names(kBodyPrefix);
  names.table = std::string(kBodyPrefix) + "text_model.embeddings.word_embeddings.weight";
  if (config.tie_word_embeddings) names.tied = {kWordDecoder};
  return names;
}

// The decoder of the masked-LM head; no other one has a decoder.
TiedDecoder decoder_of(const BridgeTowerConfig& config, ModelHead head, const ModelSource& source) {
  return {head == ModelHead::kMaskedLm && config.tie_word_embeddings, source, kWordDecoder, names_of(config)};
}

// Reference cases call matching so too.
ModelHead head_named(const std::string& name, const std::string& path) {
  if (name == kBareModel) return ModelHead::kBase;
  if (name == "contrastive") return ModelHead::kContrastive;
  if (name == "image_text_matching" || name == "matching") return ModelHead::kImageTextMatching;
  if (name == "masked_lm") return ModelHead::kMaskedLm;
  refuse_head(kBridgeTower, "BridgeTower", name, path);
}

class BridgeTower final : public Model {
 public:
  BridgeTower(const ModelSource& source, const std::string& head)
      : head_(head_named(head, source.config_path)),
        config_(read_bridgetower_config(source.config_path)),
        decoder_(decoder_of(config_, head_, source)) {
    check_bridgetower_config(config_, head_, source.config_path);
  }

  BridgeTower(const BridgeTowerConfig& config, ModelHead head)
      : head_(head), config_(config), decoder_(decoder_of(config, head, {})) {
    check_bridgetower_config(config_, head_, "");
  }

  const char* architecture() const override { return architecture_name(head_); }
  const char* body_prefix() const override { return kBodyPrefix; }
  FileNames file_names() const override { return names_of(config_); }
  bool may_be_fresh(const std::string& tensor) const override {
    const char* const heads[] = {"itc_", "itm_score.", "mlm_score.", "logit_scale"};
    return std::any_of(std::begin(heads), std::end(heads),
                       [&](const char* head) { return tensor.rfind(head, 0) == 0; });
  }
  std::vector<ParameterPiece> unused_tensors() const override { return bascule::unused_tensors(config_, head_); }
  void complete_config(Json* config) const override {
    decoder_.complete_config(config);
    // Transformers 4 goes by this key, and ties where it is missing.
    if (head_ == ModelHead::kMaskedLm) (*config)["text_config"]["tie_word_embeddings"] = decoder_.is_tied();
  }
  std::vector<std::string> notes() const override { return decoder_.notes(); }
  ModelCardWords card() const override {
    return {"BridgeTower",
            {"bridgetower", "image-text"},
            head_ == ModelHead::kMaskedLm ? "fill-mask" : "zero-shot-image-classification",
            "BridgeTowerProcessor",
            // Measured on crops of two photographs: src/loader/README.md.
            "The processor resizes to multiples of 32 pixels and pads elongated pictures: at 288 pixels it shows the "
            "model nearly the same 400 x 300 picture (normalised pixels differ by 0.004 on average), but a different "
            "312 x 142 one (by 0.3 to 1.1)."};
  }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.image_side = config_.vision.image_size;
    inputs.image_channels = config_.vision.num_channels;
    inputs.picture_rows = image_rows(config_, inputs.image_side, inputs.image_side);
    inputs.texts[0].vocabulary_size = config_.text.vocab_size;
    inputs.texts[0].max_positions = config_.text.max_position_embeddings;
    const std::int32_t padding = static_cast<std::int32_t>(config_.text.pad_token_id);
    inputs.texts[0].positions = {padding + 1, padding};
    return inputs;
  }

  std::vector<Use> uses() const override {
    if (head_ != ModelHead::kContrastive) return Model::uses();
    return {Use::kTrain, Use::kEvaluate, Use::kReference, Use::kEmbedText, Use::kEmbedPicture};
  }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;
  Fields fields(const RecordOptions& options) const override {
    return bridgetower_fields(config_, head_, height_of(options), width_of(options), options.dropout);
  }
  std::int64_t embedding_width() const override {
    return head_ == ModelHead::kContrastive ? config_.contrastive_hidden_size : 0;
  }

 private:
  std::int64_t height_of(const RecordOptions& options) const {
    return options.height > 0 ? options.height : config_.vision.image_size;
  }
  std::int64_t width_of(const RecordOptions& options) const {
    return options.width > 0 ? options.width : config_.vision.image_size;
  }

  ModelHead head_;
  BridgeTowerConfig config_;
  TiedDecoder decoder_;
};

void add_reference(Recording* recording, const BridgeTowerOutputs& outputs, ModelHead head) {
  const bool first = outputs.first_rows_only;
  const auto add = [&](const char* name, std::initializer_list<Tensor> tensors, ReferenceRows rows) {
    if (*tensors.begin()) recording->reference.push_back({name, tensors, rows});
  };
  add("text_features", {outputs.text_features}, first ? ReferenceRows::kFirstOfSample : ReferenceRows::kTokens);
  add("image_features", {outputs.image_features}, first ? ReferenceRows::kFirstOfSample : ReferenceRows::kAll);
  add("pooler_output", {outputs.pooler_output}, ReferenceRows::kAll);
  add("text_embeds", {outputs.text_embeds}, ReferenceRows::kAll);
  add("image_embeds", {outputs.image_embeds}, ReferenceRows::kAll);
  add("cross_embeds", {outputs.cross_embeds}, ReferenceRows::kAll);
  // The reference calls the three embeddings of each sample, stacked, its logits.
  add("logits", {outputs.text_embeds, outputs.image_embeds, outputs.cross_embeds}, ReferenceRows::kAll);
  add("logits", {outputs.logits}, head == ModelHead::kMaskedLm ? ReferenceRows::kTokens : ReferenceRows::kAll);
}

Recording BridgeTower::record(Graph& graph, Use use, const RecordOptions& options) const {
  Recording recording;
  if (use == Use::kEmbedText) {
    recording.outputs = {{"text_embeds", record_text_embeds(graph, config_)}};
    return recording;
  }
  if (use == Use::kEmbedPicture) {
    recording.outputs = {
        {"image_embeds", record_image_embeds(graph, config_, config_.vision.image_size, config_.vision.image_size)}};
    return recording;
  }
  BridgeTowerOptions own{options};
  own.head = head_;
  own.tie_word_embeddings = decoder_.is_tied();
  own.every_output = use == Use::kReference;
  const BridgeTowerOutputs outputs = record_bridgetower(graph, config_, own);
  if (outputs.loss) recording.losses = {{"loss", outputs.loss, outputs.loss_stream}};
  if (graph.bounds()[kSamplesOfAllRanks] > 0) recording.gathered_cols = 3 * config_.contrastive_hidden_size;
  const NamedTensor all[] = {{"text_embeds", outputs.text_embeds},
                             {"image_embeds", outputs.image_embeds},
                             {"cross_embeds", outputs.cross_embeds},
                             {"logits", outputs.logits},
                             {"hits", outputs.hits},
                             {"predicted", outputs.predicted},
                             {"predicted_probabilities", outputs.predicted_probabilities},
                             {"probabilities", outputs.probabilities}};
  std::copy_if(std::begin(all), std::end(all), std::back_inserter(recording.outputs),
               [](const NamedTensor& output) { return static_cast<bool>(output.tensor); });
  add_reference(&recording, outputs, head_);
  return recording;
}

FamilyHead bridgetower_head(const char* name, const char* judge, const char* command) {
  FamilyHead head;
  head.words.name = name;
  head.architecture = architecture_name(head_named(name, ""));
  head.judge = judge;
  head.command = command;
  return head;
}

std::vector<FamilyHead> bridgetower_heads() {
  FamilyHead contrastive = bridgetower_head("contrastive", "contrastive_retrieval", "search");
  contrastive.words.uses_negatives = true;
  FamilyHead matching = bridgetower_head("image_text_matching", "matching", "");
  matching.words.reads_labels = matching.words.has_classes = true;
  FamilyHead masked = bridgetower_head("masked_lm", "masked_tokens", "");
  masked.words.has_classes = true;
  return {contrastive, matching, masked};
}

// Every link and activation, towers of one width and of two, shared parts and not. Sums of a product over more than 256
// terms: a feed-forward width, and the rows of 11 pictures of the first model. The others have few: emulators are slow.
std::vector<std::unique_ptr<Model>> small_bridgetower_models() {
  BridgeTowerConfig config;
  config.text.vocab_size = 90;
  config.text.hidden_size = config.hidden_size = 64;
  config.text.num_hidden_layers = config.vision.num_hidden_layers = config.num_hidden_layers = 1;
  config.text.num_attention_heads = 2;
  config.text.intermediate_size = 260;
  config.text.max_position_embeddings = 20;
  config.vision.hidden_size = 64;
  config.vision.patch_size = 7;
  config.vision.image_size = 36;
  config.contrastive_hidden_size = 20;
  config.has_logit_scale = true;
  config.logit_scale_init_value = 2.6592;
  BridgeTowerConfig matching = config, masked = config;
  matching.text.hidden_size = matching.hidden_size = 72;
  matching.text.hidden_act = Activation::kQuickGelu;
  matching.vision.image_size = 24;
  matching.link_tower_type = LinkTower::kInterpolate;
  matching.share_cross_modal_transformer_layers = false;
  masked.text.hidden_act = masked.hidden_act = Activation::kGeluTanh;
  masked.vision.image_size = 15;
  masked.num_hidden_layers = 2;
  masked.link_tower_type = LinkTower::kScaledAdd;
  masked.vision.share_layernorm = false;
  masked.tie_word_embeddings = true;
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<BridgeTower>(config, ModelHead::kContrastive));
  models.push_back(std::make_unique<BridgeTower>(matching, ModelHead::kImageTextMatching));
  models.push_back(std::make_unique<BridgeTower>(masked, ModelHead::kMaskedLm));
  return models;
}

}  // namespace

const Family kBridgeTower = {"bridgetower",
                             "BridgeTowerImageProcessor",
                             bridgetower_heads(),
                             {kVision, kText, kTextPooler},
                             {kTextPooler},
                             [](const ModelSource& source, const std::string& head) {
                               return std::unique_ptr<Model>(new BridgeTower(source, head));
                             },
                             {kTextPooler},
                             &small_bridgetower_models};

namespace {

// The class's prefix of its body; everything is read, nothing trained.
BridgeTowerRecorder recorder_of(Graph& graph, const BridgeTowerConfig& config) {
  return {graph, config, kBodyPrefix, {""}, false};  // every name begins so
}

Tensor embedding_of(BridgeTowerRecorder& r, const std::string& name, const std::string& head, Tensor class_rows) {
  const Tensor embeds = normalize(r.graph, name, dense(r, head, class_rows, r.config.contrastive_hidden_size));
  r.graph.keep(embeds);
  return embeds;
}

}  // namespace

Tensor record_text_embeds(Graph& graph, const BridgeTowerConfig& config) {
  BridgeTowerRecorder r = recorder_of(graph, config);
  Tensor t = text_embeddings(r);
  for (std::int64_t i = 0; i < config.text.num_hidden_layers; ++i) t = text_layer(r, i, t);
  graph.set_scope("contrastive_head");
  return embedding_of(r, "text_embeds", "itc_text_head.fc", first_rows(graph, "text_class_row", t, r.text_rows()));
}

Tensor record_image_embeds(Graph& graph, const BridgeTowerConfig& config, std::int64_t height, std::int64_t width) {
  BridgeTowerRecorder r = recorder_of(graph, config);
  const SampleRows rows = r.image_rows(image_rows(config, height, width));
  VisionState v = vision_embeddings(r, height, width);
  // The vision tower has as many layers as the text tower, whatever its own configuration says.
  for (std::int64_t i = 0; i < config.text.num_hidden_layers; ++i) v = vision_block(r, i, v, rows);
  graph.set_scope("contrastive_head");
  // Row by row as the transform is, the class rows are all that it must see.
  const Tensor first = first_rows(graph, "image_class_row", v.normed, rows);
  const Tensor bridged = Transforms(r).image(first, config.num_hidden_layers - 1);
  return embedding_of(r, "image_embeds", "itc_image_head.fc", bridged);
}

}  // namespace bascule
