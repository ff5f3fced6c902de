// SPDX-License-Identifier: Apache-2.0
#include "src/models/pipeline_configs.h"

#include "src/models/config_values.h"
#include "src/models/families.h"
#include "src/models/recorder.h"

namespace bascule {

ClipTextConfig read_clip_text_config(const std::string& path) {
  const Json json = read_json_file(path);
  ClipTextConfig config;
  read_config_extents(json, path,
                      {{"vocab_size", &config.vocab_size},
                       {"hidden_size", &config.hidden_size},
                       {"intermediate_size", &config.intermediate_size},
                       {"num_hidden_layers", &config.num_hidden_layers},
                       {"num_attention_heads", &config.num_attention_heads},
                       {"max_position_embeddings", &config.max_position_embeddings}});
  if (config.max_position_embeddings < 2)
    refuse_config(path, "max_position_embeddings = 1 leaves no room for a prompt between its special tokens");
  // Diffusers would hide the padding of a prompt from the text encoder; without the key it has no mask.
  if (get_bool(json, "use_attention_mask", path, false))
    refuse_config(path, "use_attention_mask = true is not supported");
  check_width_of_heads(config.hidden_size, config.num_attention_heads, path);
  const std::string activation = get_string(json, "hidden_act", path, "quick_gelu");
  config.hidden_act = activation_of_name(activation, "hidden_act", activation, path);
  config.layer_norm_eps = config_epsilon(json, path, 1e-5);
  return config;
}

// The text encoder of a pipeline that draws: CLIP's, of which the last layer's normalised rows are read. Equations:
// CLIPTextModel of Transformers. It is a part of a pipeline and cannot be trained alone.

namespace {

constexpr char kClipTextArchitecture[] = "CLIPTextModel", kClipTextPrefix[] = "text_model.";

class ClipText final : public Model {
 public:
  explicit ClipText(const ClipTextConfig& config) : config_(config) {}

  const char* architecture() const override { return kClipTextArchitecture; }
  const char* body_prefix() const override { return kClipTextPrefix; }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override { return {"CLIP text encoder", {}, "", "", ""}; }
  ModelInputs inputs() const override {
    ModelInputs inputs;
    inputs.texts[0].vocabulary_size = config_.vocab_size;
    inputs.texts[0].max_positions = config_.max_position_embeddings;
    return inputs;
  }
  Fields fields(const RecordOptions& options) const override { return prompt_fields(options.drawing); }
  std::vector<Use> uses() const override { return {Use::kEncodePrompt}; }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  const ClipTextConfig config_;
};

// Norm before each part: x is the raw stream, `normed` what the next part reads.
struct ClipState {
  Tensor x, normed;
};

// One product for queries, keys and values. Every token sees those before it and itself; padding is computed like any
// other token, as the pipeline passes no mask.
Tensor self_attention(Recorder& r, const std::string& name, const ClipTextConfig& config, Tensor x,
                      const SampleRows& rows) {
  const std::int64_t width = config.hidden_size;
  const Tensor all =
      projected(r, name + ".qkv_proj", x, {name + ".q_proj", name + ".k_proj", name + ".v_proj"}, width, true);
  AttentionOptions options;
  options.causal = true;
  const Tensor context = attention(r.graph, name, {all, 0}, rows, {all, width}, {all, 2 * width}, rows,
                                   config.num_attention_heads, width / config.num_attention_heads, {}, {}, options);
  return dense(r, name + ".out_proj", context, width);
}

// The stream behind a part whose result is h, and the next part's norm of it, whose tensor may have a name of its own.
ClipState add_part(Recorder& r, const ClipTextConfig& config, Tensor x, Tensor h, const std::string& norm,
                   const std::string& normed_name = "") {
  const Tensor weight = r.row(norm + ".weight", config.hidden_size, {1.0f, 0.0f}, false);
  const Normalized next = add_layer_norm(r.graph, normed_name.empty() ? norm : normed_name, x, h, weight,
                                         r.bias(norm + ".bias", config.hidden_size), config.layer_norm_eps, {}, {});
  return {next.sum, next.y};
}

Recording ClipText::record(Graph& graph, Use, const RecordOptions& options) const {
  Recorder r{graph, options.frozen};
  const std::string embeddings = std::string(kClipTextPrefix) + "embeddings";
  graph.set_scope(embeddings);
  const Tensor words =
      r.table(embeddings + ".token_embedding.weight", config_.vocab_size, config_.hidden_size, r.deviation);
  const Tensor positions = r.table(embeddings + ".position_embedding.weight", config_.max_position_embeddings,
                                   config_.hidden_size, r.deviation);
  const auto looked_up = [&](const char* part, Tensor table, const char* index) {
    return text_embedding(graph, embeddings + part, {table, {}, {}}, {graph.field(index), {}, {}}, {});
  };
  const Tensor x = add(graph, embeddings, looked_up(".token", words, kPromptIds),
                       looked_up(".position", positions, kPromptPositions));
  const SampleRows rows = {rows_per_sample(options.drawing.prompt_tokens), {}, {}};
  const auto layer_name = [](std::int64_t i) {
    return std::string(kClipTextPrefix) + "encoder.layers." + std::to_string(i);
  };
  ClipState state = {x, norm(r, layer_name(0) + ".layer_norm1", x, config_.layer_norm_eps)};
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string name = layer_name(i);
    graph.set_scope(name);
    const Tensor context = self_attention(r, name + ".self_attn", config_, state.normed, rows);
    state = add_part(r, config_, state.x, context, name + ".layer_norm2");
    const Tensor up = dense(r, name + ".mlp.fc1", state.normed, config_.intermediate_size);
    const Tensor h =
        dense(r, name + ".mlp.fc2", activation(graph, name + ".mlp.act", up, config_.hidden_act), config_.hidden_size);
    const bool is_last = i + 1 == config_.num_hidden_layers;
    if (is_last) graph.set_scope("");  // the UNet looks for its tensor
    state = is_last
                ? add_part(r, config_, state.x, h, std::string(kClipTextPrefix) + "final_layer_norm", kTextEmbeddings)
                : add_part(r, config_, state.x, h, layer_name(i + 1) + ".layer_norm1");
  }
  Recording recording;
  recording.outputs = {{kTextEmbeddings, state.normed}};
  return recording;
}

std::unique_ptr<Model> open_clip_text(const ModelSource& source, const std::string&) {
  return std::make_unique<ClipText>(read_clip_text_config(source.config_path));
}

}  // namespace

extern const Family kClipText;
const Family kClipText = {"clip_text_model", "", {}, {}, {}, open_clip_text};

}  // namespace bascule
