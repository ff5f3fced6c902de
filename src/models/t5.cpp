// SPDX-License-Identifier: Apache-2.0
// T5 as a family: an encoder-decoder that is fine-tuned on pairs of texts. Equations: Transformers' modeling_t5.py.
#include "src/models/families.h"
#include "src/models/recorder.h"
#include "src/models/t5_layers.h"

namespace bascule {

extern const Family kT5;

namespace {

constexpr char kT5Head[] = "conditional_generation", kT5Architecture[] = "T5ForConditionalGeneration";
constexpr char kEncoderWords[] = "encoder.embed_tokens.weight", kDecoderWords[] = "decoder.embed_tokens.weight";
constexpr int kSource = 0, kTarget = 1;  // the texts of a sample
constexpr int kSourceTokens = kFirstModelStream;
constexpr int kTargetTokens = kFirstModelStream + 1;
constexpr int kLabelledTokens = kFirstModelStream + 2;  // of the target: those that the loss counts

class T5 final : public Model {
 public:
  explicit T5(const T5Config& config, const ModelSource& source = {})
      : config_(config), head_is_tied_(!hold_own_decoder(source, kT5LmHead, file_names())) {}

  const char* architecture() const override { return kT5Architecture; }
  const char* body_prefix() const override { return ""; }
  FileNames file_names() const override;
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  bool is_ignored(const std::string& tensor) const override;
  void complete_config(Json* config) const override;
  std::vector<std::string> notes() const override;
  ModelCardWords card() const override { return {"T5", {"t5", "summarization"}, "summarization", "AutoTokenizer", ""}; }

  ModelInputs inputs() const override {
    ModelInputs inputs;
    for (TextShape& text : inputs.texts) {
      text.vocabulary_size = config_.vocab_size;
      text.start_id = static_cast<std::int32_t>(config_.decoder_start_token_id);
      text.pad_id = static_cast<std::int32_t>(config_.pad_token_id);
    }
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override;
  std::vector<Use> uses() const override {
    return {Use::kTrain, Use::kEvaluate, Use::kReference, Use::kEncode, Use::kDecode};
  }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  Recording record_next(T5Recorder& r, const DecodingShape& shape) const;

  T5Config config_;
  // Whatever config.json says: the word table is the head unless the weights hold another one.
  bool head_is_tied_;
};

// In the order of Transformers 5, which ties all of them whatever config.json says.
FileNames T5::file_names() const {
  FileNames names(body_prefix());
  names.table = kT5Words;
  names.tied = {kEncoderWords, kDecoderWords, kT5LmHead};
  return names;
}

// Copies of the word table that older versions wrote, and a table that no attention reads.
bool T5::is_ignored(const std::string& tensor) const {
  return tensor == kEncoderWords || tensor == kDecoderWords ||
         tensor == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight" ||
         (head_is_tied_ && tensor == kT5LmHead);
}

// Transformers 4 knows one key: a tied head is scaled, and no other one is. Transformers 5 reads it so where the key
// `scale_decoder_outputs` is missing; so that is written only for a head of its own that is scaled all the same, which
// version 4 cannot express.
void T5::complete_config(Json* config) const {
  (*config)["tie_word_embeddings"] = head_is_tied_ && config_.scales_outputs;
  config->items().erase("scale_decoder_outputs");
  if (!head_is_tied_ && config_.scales_outputs) (*config)["scale_decoder_outputs"] = true;
}

std::vector<std::string> T5::notes() const {
  if (head_is_tied_ || !config_.tie_word_embeddings) return {};
  return {
      "lm_head differs from the word table: both are trained, and config.json will say tie_word_embeddings = false"};
}

Fields T5::fields(const RecordOptions& options) const {
  const Extent source = rows_of_stream(kSourceTokens), target = rows_of_stream(kTargetTokens),
               labelled = rows_of_stream(kLabelledTokens), offsets = {kSamples, 1, 1};
  Fields fields = {
      {"source_ids", DType::kInt32, source, 1, FieldSource::kTokenIds, kSource},
      {"source_offsets", DType::kInt32, offsets, 1, FieldSource::kTextOffsets, kSource},
      {"target_ids", DType::kInt32, target, 1, FieldSource::kTokenIds, kTarget},
      {"decoder_ids", DType::kInt32, target, 1, FieldSource::kDecoderIds, kTarget},
      {"target_offsets", DType::kInt32, offsets, 1, FieldSource::kTextOffsets, kTarget},
      {"labelled_rows", DType::kInt32, labelled, 1, FieldSource::kLabelledRows, kTarget},
      {"labels", DType::kInt32, labelled, 1, FieldSource::kTokenLabels, kTarget},
  };
  if (options.dropout) {
    fields.push_back({"source_keys", DType::kInt64, source, 1, FieldSource::kTextRowKeys, kSource});
    fields.push_back({"target_keys", DType::kInt64, target, 1, FieldSource::kTextRowKeys, kTarget});
    fields.push_back({"sample_keys", DType::kInt64, rows_per_sample(1), 1, FieldSource::kSampleKeys});
  }
  return fields;
}

// The most tokens of a text of that stream.
std::int64_t span_of(const Graph& graph, int stream) {
  const std::int64_t longest = graph.bounds().longest[stream];
  return longest > 0 ? longest : graph.bounds()[stream];
}

Recording T5::record(Graph& graph, Use use, const RecordOptions& options) const {
  T5Recorder r(graph, config_, options);
  if (use == Use::kDecode) return record_next(r, options.decoding);
  const SampleRows source = {rows_of_stream(kSourceTokens), graph.field("source_offsets"), r.keys("source_keys")};
  const T5Stack encoder = record_t5_encoder(r, source, span_of(graph, kSourceTokens));
  const RowStream encoded{record_t5_blocks(r, encoder, "source_ids", {}), source};
  if (use == Use::kEncode) {
    record_t5_source_cache(r, options.decoding, encoded.x);
    return {};
  }
  const SampleRows target = {rows_of_stream(kTargetTokens), graph.field("target_offsets"), r.keys("target_keys")};
  const T5Stack decoder = record_t5_decoder(r, target, span_of(graph, kTargetTokens));
  const Tensor decoded = record_t5_blocks(r, decoder, "decoder_ids", encoded);

  graph.set_scope("lm_head");
  const Tensor rows = gather_rows(graph, "labelled", decoded, graph.field("labelled_rows"));
  const Tensor logits = record_t5_logits(r, rows, head_is_tied_);
  const ClassLoss loss = cross_entropy_loss(graph, logits, graph.field("labels"), options.label_smoothing);
  Recording recording;
  recording.losses = {{"loss", loss.loss, kLabelledTokens}};
  recording.outputs = {{"hits", loss.hits}};
  if (use == Use::kReference) {
    graph.keep(encoded.x);
    graph.keep(logits);
  }
  recording.reference = {{"encoder_last_hidden_state", {encoded.x}, ReferenceRows::kTokens, kSource},
                         {"logits", {logits}, ReferenceRows::kTokens, kTarget}};
  return recording;
}

Recording T5::record_next(T5Recorder& r, const DecodingShape& shape) const {
  const Tensor logits = record_t5_logits(r, record_t5_next(r, shape), head_is_tied_);
  r.graph.keep(logits);
  Recording recording;
  recording.outputs = {{"logits", logits}};
  return recording;
}

FamilyHead t5_head() {
  FamilyHead head;
  head.words.name = kT5Head;
  head.words.has_classes = true;  // tokens, over which labels can be smoothed
  head.words.reads_targets = true;
  head.architecture = kT5Architecture;
  head.judge = "target_tokens";
  head.command = "generate";
  return head;
}

// The published forms: tied and scaled with one feed-forward projection in, or gated and neither.
std::vector<std::unique_ptr<Model>> small_t5_models() {
  T5Config tied;
  tied.vocab_size = 70;
  tied.d_model = 36;
  tied.d_kv = 10;
  tied.d_ff = 50;
  tied.num_layers = 2;
  tied.num_decoder_layers = 3;
  tied.num_heads = 3;
  tied.relative_attention_num_buckets = 8;
  tied.relative_attention_max_distance = 12;
  T5Config gated = tied;
  gated.activation = Activation::kGeluTanh;
  gated.is_gated = true;
  gated.scales_outputs = gated.tie_word_embeddings = false;
  ModelSource own_head;
  own_head.has_weights = [](const std::string& tensor) { return tensor == kT5LmHead; };
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<T5>(tied));
  models.push_back(std::make_unique<T5>(gated, own_head));
  return models;
}

std::unique_ptr<Model> open_t5(const ModelSource& source, const std::string& head) {
  if (head != kT5Head) refuse_head(kT5, "T5", head, source.config_path);
  return std::make_unique<T5>(read_t5_config(source.config_path), source);
}

}  // namespace

const Family kT5 = {"t5", "", {t5_head()}, {"shared", "encoder", "decoder"}, {}, open_t5, {}, small_t5_models};

}  // namespace bascule
