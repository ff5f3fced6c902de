// SPDX-License-Identifier: Apache-2.0
// The UNet of a pipeline that draws: it predicts the noise in latents, told a timestep and a prompt. Equations:
// UNet2DConditionModel of Diffusers. Keys and values of a prompt do not depend on the latents: who draws has them
// computed once and kept in states. No gradient goes through a state, so a graph that has the rows of its samples'
// prompts makes keys and values of these, and attends to them without a cache: the same bits.
#include <vector>

#include "src/models/diffusion_layers.h"
#include "src/models/families.h"
#include "src/models/pipeline_configs.h"

namespace bascule {
namespace {

constexpr char kUnetArchitecture[] = "UNet2DConditionModel";
constexpr float kTransformerNormEpsilon = 1e-6f, kLayerNormEpsilon = 1e-5f;  // the classes' own, in no config.json

struct UnetRecorder : DiffusionRecorder {
  UnetRecorder(Graph& target, const UnetConfig& model_config, const RecordOptions& options)
      : DiffusionRecorder(target, options.frozen, model_config.norm_num_groups),
        config(model_config),
        shape(options.drawing),
        text(target.find(kTextEmbeddings)) {}

  const UnetConfig& config;
  const DrawingShape& shape;
  const Tensor text;  // rows of prompts; kPredictNoise: those of each sample, none: keys and values are kept
  Tensor time;        // of all residual blocks
  std::vector<PictureRows> skips;  // what blocks upwards read, the last first
};

// One transformer: its name, and the width and number of its heads.
struct TransformerPlace {
  std::string name;
  std::int64_t channels = 0, heads = 0;

  std::int64_t head_size() const { return channels / heads; }
  std::string block() const { return name + ".transformer_blocks.0"; }
};

std::string numbered(const std::string& name, std::int64_t i) { return name + "." + std::to_string(i); }

// All transformers, in the order in which they run.
std::vector<TransformerPlace> transformers_of(const UnetConfig& config) {
  std::vector<TransformerPlace> places;
  const auto add = [&](const std::string& block, const UnetLevel& level, std::int64_t count) {
    for (std::int64_t l = 0; l < count; ++l)
      places.push_back({numbered(block + ".attentions", l), level.channels, level.heads});
  };
  const std::int64_t levels = static_cast<std::int64_t>(config.levels.size());
  for (std::int64_t b = 0; b < levels; ++b) {
    const UnetLevel& level = config.levels[static_cast<std::size_t>(b)];
    if (level.attends) add(numbered("down_blocks", b), level, config.layers_per_block);
  }
  add("mid_block", config.levels.back(), 1);
  for (std::int64_t b = 0; b < levels; ++b) {
    if (config.up_attends[static_cast<std::size_t>(b)])
      add(numbered("up_blocks", b), config.levels[static_cast<std::size_t>(levels - 1 - b)],
          config.layers_per_block + 1);
  }
  return places;
}

// The keys and values of all kept prompts for one transformer.
Tensor prompt_state(UnetRecorder& r, const TransformerPlace& place) {
  const std::int64_t rows = place.heads * r.shape.prompts * r.shape.prompt_tokens;
  return r.graph.state({place.block() + ".attn2.cache", rows, 2 * place.head_size()});
}

// The keys and values of prompts, side by side.
Tensor keys_of(UnetRecorder& r, const TransformerPlace& place) {
  const std::string name = place.block() + ".attn2";
  return projected(r, name + ".to_kv", r.text, {name + ".to_k", name + ".to_v"}, place.channels);
}

void keep_prompt(UnetRecorder& r, const TransformerPlace& place) {
  r.graph.set_scope(place.name);
  store_keys(r.graph, prompt_state(r, place), keys_of(r, place), 0, place.channels, place.heads,
             r.graph.field(kKeptPlaces));
}

Tensor self_attention(UnetRecorder& r, const TransformerPlace& place, Tensor x, const SampleRows& rows) {
  const std::string name = place.block() + ".attn1";
  const std::int64_t width = place.channels;
  const Tensor all = projected(r, name + ".to_qkv", x, {name + ".to_q", name + ".to_k", name + ".to_v"}, width);
  const Tensor context = attention(r.graph, name, {all, 0}, rows, {all, width}, {all, 2 * width}, rows, place.heads,
                                   place.head_size(), {}, {});
  return dense(r, name + ".to_out.0", context, width);
}

// x: of samples, or of what several samples have in common.
Tensor prompt_attention(UnetRecorder& r, const TransformerPlace& place, Tensor x, const SampleRows& rows) {
  const std::string name = place.block() + ".attn2";
  const Tensor query = repeat_rows(r.graph, name + ".query",
                                   projected(r, name + ".to_q", x, {name + ".to_q"}, place.channels), rows.extent);
  Tensor context;
  if (r.text) {
    const Tensor both = keys_of(r, place);
    context = attention(r.graph, name, {query, 0}, rows, {both, 0}, {both, place.channels},
                        {r.graph[r.text].rows, {}, {}}, place.heads, place.head_size(), {}, {});
  } else {
    context = cached_attention(r.graph, name, {query, 0}, rows,
                               {prompt_state(r, place), r.graph.field(kPromptPlaces), r.graph.field(kPromptCounts)},
                               place.heads, place.head_size(), {});
  }
  return dense(r, name + ".to_out.0", context, place.channels);
}

// The sum x + h, and the norm of it that the next part reads.
Normalized add_part(UnetRecorder& r, const std::string& norm, Tensor x, Tensor h) {
  return add_norm(r, norm, x, h, kLayerNormEpsilon);
}

// proj_in and proj_out: a 1 x 1 convolution, or the same product with a weight of two dimensions in the file.
Tensor project(UnetRecorder& r, const std::string& name, Tensor x) {
  const std::int64_t width = r.graph[x].cols;
  return r.config.use_linear_projection ? dense(r, name, x, width) : convolution_1x1(r, name, x, width);
}

// The same for each sample, where x is what several of them have in common.
PictureRows of_samples(UnetRecorder& r, const std::string& name, const PictureRows& x) {
  return {repeat_rows(r.graph, name + ".repeated", x.x, rows_per_sample(x.height * x.width)), x.height, x.width};
}

PictureRows transformer(UnetRecorder& r, const TransformerPlace& place, const PictureRows& x) {
  r.graph.set_scope(place.name);
  const SampleRows rows = {r.graph[x.x].rows, {}, {}};
  const std::string block = place.block();
  Tensor h =
      project(r, place.name + ".proj_in", group_normed(r, place.name + ".norm", x.x, kTransformerNormEpsilon, false));
  Normalized next = {h, norm(r, block + ".norm1", h, kLayerNormEpsilon)};
  next = add_part(r, block + ".norm2", next.sum, self_attention(r, place, next.y, rows));
  // Samples with and without their prompt differ from here on.
  const SampleRows samples = {rows_per_sample(x.height * x.width), {}, {}};
  next.sum = repeat_rows(r.graph, block + ".repeated", next.sum, samples.extent);
  next = add_part(r, block + ".norm3", next.sum, prompt_attention(r, place, next.y, samples));
  const Tensor up = dense(r, block + ".ff.net.0.proj", next.y, 8 * place.channels);
  const Tensor gated = gate(r.graph, block + ".ff.net.0", up, Activation::kGelu, {}, {}, GatedHalf::kSecond);
  h = add(r.graph, block, dense(r, block + ".ff.net.2", gated, place.channels), next.sum);
  return {add(r.graph, place.name, project(r, place.name + ".proj_out", h), of_samples(r, place.name, x).x), x.height,
          x.width};
}

// W2 silu(W1 e + b1) + b2, and silu once more: every residual block reads that alone.
Tensor time_embedding(UnetRecorder& r) {
  r.graph.set_scope("");
  const Tensor timestep = r.graph.input(kTimeEmbedding, fixed_rows(1), r.config.time_width());
  r.graph.set_scope("time_embedding");
  const std::int64_t width = 4 * r.config.time_width();
  const Tensor first = dense(r, "time_embedding.linear_1", timestep, width);
  const Tensor h = activation(r.graph, "time_embedding.act", first, Activation::kSilu);
  return activation(r.graph, "time", dense(r, "time_embedding.linear_2", h, width), Activation::kSilu);
}

PictureRows layer(UnetRecorder& r, const std::string& block, std::int64_t l, const PictureRows& x,
                  const UnetLevel& level, bool attends) {
  const PictureRows h =
      residual_block(r, numbered(block + ".resnets", l), x, level.channels, r.config.norm_eps, r.time);
  return attends ? transformer(r, {numbered(block + ".attentions", l), level.channels, level.heads}, h)
                 : of_samples(r, numbered(block + ".resnets", l), h);
}

PictureRows downwards(UnetRecorder& r, PictureRows x) {
  const std::int64_t levels = static_cast<std::int64_t>(r.config.levels.size());
  r.skips.push_back(of_samples(r, "conv_in", x));
  for (std::int64_t b = 0; b < levels; ++b) {
    const UnetLevel& level = r.config.levels[static_cast<std::size_t>(b)];
    const std::string block = numbered("down_blocks", b);
    for (std::int64_t l = 0; l < r.config.layers_per_block; ++l) {
      x = layer(r, block, l, x, level, level.attends);
      r.skips.push_back(x);
    }
    if (b + 1 == levels) break;
    r.graph.set_scope(block);
    x = convolution_3x3(r, block + ".downsamplers.0.conv", x, level.channels, 2);
    r.skips.push_back(x);
  }
  return x;
}

PictureRows upwards(UnetRecorder& r, PictureRows x) {
  const std::int64_t levels = static_cast<std::int64_t>(r.config.levels.size());
  for (std::int64_t b = 0; b < levels; ++b) {
    const UnetLevel& level = r.config.levels[static_cast<std::size_t>(levels - 1 - b)];
    const std::string block = numbered("up_blocks", b);
    for (std::int64_t l = 0; l <= r.config.layers_per_block; ++l) {
      r.graph.set_scope(numbered(block + ".resnets", l));
      x.x = concatenate(r.graph, numbered(block + ".resnets", l) + ".skip", x.x, r.skips.back().x);
      r.skips.pop_back();
      x = layer(r, block, l, x, level, r.config.up_attends[static_cast<std::size_t>(b)]);
    }
    if (b + 1 == levels) break;
    // To the size of the next skip, which is not twice the height or width where that was odd.
    r.graph.set_scope(block);
    x = upsampled(r, block + ".upsamplers.0.conv", x, r.skips.back().height, r.skips.back().width);
  }
  return x;
}

class Unet final : public Model {
 public:
  explicit Unet(const UnetConfig& config) : config_(config) {}

  const char* architecture() const override { return kUnetArchitecture; }
  const char* body_prefix() const override { return ""; }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  ModelCardWords card() const override { return {"UNet", {}, "", "", ""}; }
  ModelInputs inputs() const override { return {}; }
  Fields fields(const RecordOptions& options) const override { return noise_fields(options.drawing); }
  std::vector<Use> uses() const override { return {Use::kKeepPrompt, Use::kPredictNoise}; }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  const UnetConfig config_;
};

Recording Unet::record(Graph& graph, Use use, const RecordOptions& options) const {
  UnetRecorder r(graph, config_, options);
  if (use == Use::kKeepPrompt) {
    for (const TransformerPlace& place : transformers_of(config_)) keep_prompt(r, place);
    return {};
  }
  r.time = time_embedding(r);
  graph.set_scope("conv_in");
  const PictureRows latents = {graph.find(kNoisyLatents), options.drawing.height, options.drawing.width};
  PictureRows x = downwards(r, convolution_3x3(r, "conv_in", latents, config_.levels.front().channels));
  const UnetLevel& lowest = config_.levels.back();
  x = residual_block(r, "mid_block.resnets.0", x, lowest.channels, config_.norm_eps, r.time);
  x = transformer(r, {"mid_block.attentions.0", lowest.channels, lowest.heads}, x);
  x = residual_block(r, "mid_block.resnets.1", x, lowest.channels, config_.norm_eps, r.time);
  x = upwards(r, x);
  graph.set_scope("conv_out");
  x.x = group_normed(r, "conv_norm_out", x.x, config_.norm_eps, true);
  ConvolutionShape last;
  last.height = x.height;
  last.width = x.width;
  const Tensor weight = convolution_weight(r, "conv_out", config_.out_channels, r.channels(x));
  const Tensor output =
      convolution(graph, kModelOutput, x.x, weight, r.bias("conv_out.bias", config_.out_channels), last);
  Recording recording;
  recording.outputs = {{kModelOutput, output}};
  return recording;
}

std::unique_ptr<Model> open_unet(const ModelSource& source, const std::string&) {
  return std::make_unique<Unet>(read_unet_config(source.config_path));
}

}  // namespace

extern const Family kUnet;
const Family kUnet = {kUnetArchitecture, "", {}, {}, {}, open_unet};

}  // namespace bascule
