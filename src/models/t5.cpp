// SPDX-License-Identifier: Apache-2.0
// T5 as a family: an encoder-decoder that is fine-tuned on pairs of texts. Equations: Transformers' modeling_t5.py.
#include <algorithm>
#include <cmath>

#include "src/models/config_values.h"
#include "src/models/families.h"
#include "src/models/recorder.h"
#include "src/models/t5_config.h"

namespace bascule {
namespace {

constexpr char kHead[] = "conditional_generation", kArchitecture[] = "T5ForConditionalGeneration";
constexpr char kEncoder[] = "encoder", kDecoder[] = "decoder", kShared[] = "shared";
constexpr char kWords[] = "shared.weight", kLmHead[] = "lm_head.weight";
constexpr int kSource = 0, kTarget = 1;  // the texts of a sample
constexpr int kSourceTokens = kFirstModelStream;
constexpr int kTargetTokens = kFirstModelStream + 1;
constexpr int kLabelledTokens = kFirstModelStream + 2;  // of the target: those that the loss counts

struct T5Recorder : Recorder {
  T5Recorder(Graph& target, const T5Config& model_config, const RecordOptions& options)
      : Recorder{target, {}, 0.0, options.dropout}, config(model_config) {
    for (const std::string& part : options.frozen) frozen.push_back(part + ".");
  }
  DropoutPlace next_dropout() { return drop(config.dropout_rate); }  // all have one rate
  // The standard deviation of weights that read so many columns.
  double fan_in(std::int64_t columns) const {
    return config.initializer_factor / std::sqrt(static_cast<double>(columns));
  }
  Tensor words() { return table(kWords, config.vocab_size, config.d_model, config.initializer_factor); }
  Tensor norm_weight(const std::string& name) {
    return row(name + ".weight", config.d_model, {static_cast<float>(config.initializer_factor), 0.0f}, false);
  }

  const T5Config& config;
};

// One of the two stacks: what its blocks share.
struct Stack {
  std::string name;  // "encoder"
  std::int64_t depth = 0;
  SampleRows rows;
  AttentionOptions self_attention;
};

// A block's two streams (norm before each part): x is the raw one, `normed` what the next part reads.
struct T5State {
  Tensor x, normed;
};

std::string block_name(const Stack& stack, std::int64_t i) { return stack.name + ".block." + std::to_string(i); }

// The norm that reads the raw stream behind block i - 1.
std::string next_norm(const Stack& stack, std::int64_t i) {
  return i < stack.depth ? block_name(stack, i) + ".layer.0.layer_norm" : stack.name + ".final_layer_norm";
}

Tensor projection(T5Recorder& r, const std::string& name, Tensor x, const std::vector<Recorder::WeightPiece>& pieces,
                  std::int64_t rows_each) {
  return linear(r.graph, name, x, r.stacked_weights(name + ".weight", pieces, rows_each, r.graph[x].cols), Tensor{});
}

// The stream behind a part whose result is h, and the next part's norm of it.
T5State add_part(T5Recorder& r, const Stack& stack, Tensor x, Tensor h, const std::string& norm_name) {
  const Normalized next = add_rms_norm(r.graph, norm_name, x, h, r.norm_weight(norm_name), r.config.layer_norm_epsilon,
                                       r.next_dropout(), stack.rows.row_keys);
  return {next.sum, next.y};
}

Stack record_stack(T5Recorder& r, const char* name, std::int64_t depth, int stream, const SampleRows& rows) {
  const bool is_decoder = stream == kTargetTokens;
  Stack stack{name, depth, rows, {}};
  const std::string table = block_name(stack, 0) + ".layer.0.SelfAttention.relative_attention_bias";
  r.graph.set_scope(table);
  const T5Config& config = r.config;
  const Tensor weight = r.table(table + ".weight", config.relative_attention_num_buckets, config.num_heads,
                                r.fan_in(config.d_model), -1, false);
  const std::int64_t longest = r.graph.bounds().longest[stream];
  const std::int64_t span = longest > 0 ? longest : r.graph.bounds()[stream];
  stack.self_attention.scale = 1.0f;  // the fresh weights of the queries have it instead
  stack.self_attention.causal = is_decoder;
  stack.self_attention.bias = relative_position_bias(
      r.graph, table, weight,
      {config.relative_attention_num_buckets, config.relative_attention_max_distance, !is_decoder},
      std::max<std::int64_t>(1, span));
  return stack;
}

T5State record_embeddings(T5Recorder& r, const Stack& stack, const char* ids) {
  r.graph.set_scope(stack.name + ".embed_tokens");
  const Tensor e =
      text_embedding(r.graph, stack.name + ".embed_tokens", {r.words(), {}, {}}, {r.graph.field(ids), {}, {}}, {});
  const Tensor x = dropout(r.graph, stack.name + ".dropout", e, r.next_dropout(), stack.rows.row_keys);
  const std::string norm = next_norm(stack, 0);
  return {x, rms_norm(r.graph, norm, x, r.norm_weight(norm), r.config.layer_norm_epsilon)};
}

// Without the projection of its result, `o`.
Tensor record_context(T5Recorder& r, const std::string& name, Tensor queries, const SampleRows& query_rows, Tensor keys,
                      const SampleRows& key_rows, const AttentionOptions& options) {
  const T5Config& config = r.config;
  const std::int64_t inner = config.inner_width();
  const Recorder::WeightPiece q = {name + ".q.weight", r.fan_in(config.d_model * config.d_kv)},
                              k = {name + ".k.weight", r.fan_in(config.d_model)},
                              v = {name + ".v.weight", r.fan_in(config.d_model)};
  AttentionOperand query, key, value;
  if (queries == keys) {
    const Tensor all = projection(r, name + ".qkv", queries, {q, k, v}, inner);
    query = {all, 0};
    key = {all, inner};
    value = {all, 2 * inner};
  } else {
    query = {projection(r, name + ".q", queries, {q}, inner), 0};
    const Tensor both = projection(r, name + ".kv", keys, {k, v}, inner);
    key = {both, 0};
    value = {both, inner};
  }
  return attention(r.graph, name, query, query_rows, key, value, key_rows, config.num_heads, config.d_kv,
                   r.next_dropout(), r.keys("sample_keys"), options);
}

Tensor record_attention(T5Recorder& r, const std::string& name, Tensor queries, const SampleRows& query_rows,
                        Tensor keys, const SampleRows& key_rows, const AttentionOptions& options) {
  const Tensor context = record_context(r, name, queries, query_rows, keys, key_rows, options);
  return projection(r, name + ".o", context, {{name + ".o.weight", r.fan_in(r.config.inner_width())}},
                    r.config.d_model);
}

Tensor record_feed_forward(T5Recorder& r, const std::string& name, Tensor x, const SampleRows& rows) {
  const T5Config& config = r.config;
  const double deviation = r.fan_in(config.d_model);
  Tensor h;
  if (config.is_gated) {
    const Tensor both = projection(
        r, name + ".wi", x, {{name + ".wi_0.weight", deviation}, {name + ".wi_1.weight", deviation}}, config.d_ff);
    h = gate(r.graph, name + ".gate", both, config.activation, r.next_dropout(), rows.row_keys);
  } else {
    const Tensor up = projection(r, name + ".wi", x, {{name + ".wi.weight", deviation}}, config.d_ff);
    h = dropout(r.graph, name + ".dropout", activation(r.graph, name + ".act", up, config.activation), r.next_dropout(),
                rows.row_keys);
  }
  return projection(r, name + ".wo", h, {{name + ".wo.weight", r.fan_in(config.d_ff)}}, config.d_model);
}

// encoded: the encoder's result, which a decoder's block reads; none in an encoder.
T5State record_block(T5Recorder& r, const Stack& stack, std::int64_t i, T5State state, const RowStream& encoded) {
  const std::string name = block_name(stack, i) + ".layer.";
  const bool is_decoder = static_cast<bool>(encoded.x);
  r.graph.set_scope(block_name(stack, i));
  const Tensor a = record_attention(r, name + "0.SelfAttention", state.normed, stack.rows, state.normed, stack.rows,
                                    stack.self_attention);
  state = add_part(r, stack, state.x, a, name + "1.layer_norm");
  if (is_decoder) {
    AttentionOptions cross;
    cross.scale = 1.0f;
    const Tensor c =
        record_attention(r, name + "1.EncDecAttention", state.normed, stack.rows, encoded.x, encoded.rows, cross);
    state = add_part(r, stack, state.x, c, name + "2.layer_norm");
  }
  const Tensor f =
      record_feed_forward(r, name + (is_decoder ? "2" : "1") + ".DenseReluDense", state.normed, stack.rows);
  return add_part(r, stack, state.x, f, next_norm(stack, i + 1));
}

// The stack's result: its last norm, with dropout behind.
Tensor record_blocks(T5Recorder& r, const Stack& stack, const char* ids, const RowStream& encoded) {
  T5State state = record_embeddings(r, stack, ids);
  for (std::int64_t i = 0; i < stack.depth; ++i) state = record_block(r, stack, i, state, encoded);
  r.graph.set_scope(stack.name + ".dropout");
  return dropout(r.graph, stack.name + ".final_dropout", state.normed, r.next_dropout(), stack.rows.row_keys);
}

class T5 final : public Model {
 public:
  explicit T5(const T5Config& config, ModelSource source = {})
      : config_(config), source_(std::move(source)), head_is_tied_(find_whether_tied()) {}

  const char* architecture() const override { return kArchitecture; }
  const char* body_prefix() const override { return ""; }
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
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  // Whatever config.json says: the word table is the head unless the weights hold another one.
  bool find_whether_tied() const {
    if (!source_.has_weights || !source_.has_weights(kLmHead)) return true;
    return source_.are_equal && source_.are_equal(kLmHead, kWords, file_names());
  }

  T5Config config_;
  ModelSource source_;
  bool head_is_tied_;
};

// Copies of the word table that older versions wrote, and a table that no attention reads.
bool T5::is_ignored(const std::string& tensor) const {
  return tensor == "encoder.embed_tokens.weight" || tensor == "decoder.embed_tokens.weight" ||
         tensor == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight" ||
         (head_is_tied_ && tensor == kLmHead);
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

Recording T5::record(Graph& graph, Use use, const RecordOptions& options) const {
  T5Recorder r(graph, config_, options);
  const SampleRows source = {rows_of_stream(kSourceTokens), graph.field("source_offsets"), r.keys("source_keys")},
                   target = {rows_of_stream(kTargetTokens), graph.field("target_offsets"), r.keys("target_keys")};
  const Stack encoder = record_stack(r, kEncoder, config_.num_layers, kSourceTokens, source);
  const RowStream encoded{record_blocks(r, encoder, "source_ids", {}), source};
  const Stack decoder = record_stack(r, kDecoder, config_.num_decoder_layers, kTargetTokens, target);
  const Tensor decoded = record_blocks(r, decoder, "decoder_ids", encoded);

  graph.set_scope("lm_head");
  Tensor rows = gather_rows(graph, "labelled", decoded, graph.field("labelled_rows"));
  if (config_.scales_outputs)
    rows = scale(graph, "scaled", rows, static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.d_model))));
  const Tensor weight =
      head_is_tied_ ? r.words() : r.weight(kLmHead, config_.vocab_size, config_.d_model, config_.initializer_factor);
  const Tensor logits = linear(graph, "logits", rows, weight, Tensor{});
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

FamilyHead head() {
  FamilyHead head;
  head.words.name = kHead;
  head.words.has_classes = true;  // tokens, over which labels can be smoothed
  head.words.reads_targets = true;
  head.judge = "target_tokens";
  return head;
}

// The published forms: tied and scaled with one feed-forward projection in, or gated and neither.
std::vector<std::unique_ptr<Model>> small_models() {
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
  own_head.has_weights = [](const std::string& tensor) { return tensor == kLmHead; };
  std::vector<std::unique_ptr<Model>> models;
  models.push_back(std::make_unique<T5>(tied));
  models.push_back(std::make_unique<T5>(gated, own_head));
  return models;
}

std::unique_ptr<Model> open_t5(const ModelSource& source, const std::string& head) {
  if (head != kHead) refuse_config(source.config_path, "unknown head \"" + head + "\"", "T5 has " + std::string(kHead));
  return std::make_unique<T5>(read_t5_config(source.config_path), source);
}

}  // namespace

extern const Family kT5;
const Family kT5 = {"t5",
                    "",
                    {head()},
                    {kShared, kEncoder, kDecoder},
                    {},
                    open_t5,
                    [](const std::string&) { return kArchitecture; },
                    {},
                    small_models};

}  // namespace bascule
