// SPDX-License-Identifier: Apache-2.0
// The decoder of a pipeline's autoencoder: it makes a picture of latents. Equations: Decoder of AutoencoderKL of
// Diffusers. The encoder's tensors in the same file are not read.
#include "src/models/diffusion_layers.h"
#include "src/models/families.h"
#include "src/models/pipeline_configs.h"

namespace bascule {
namespace {

constexpr char kVaeDecoderArchitecture[] = "AutoencoderKL";
constexpr float kEpsilon = 1e-6f;  // of every norm: the class's own, in no config.json
constexpr std::int64_t kColours = 3;

// Attention over all pixels, with one head.
PictureRows self_attention(DiffusionRecorder& r, const std::string& name, const PictureRows& x) {
  r.graph.set_scope(name);
  const std::int64_t width = r.channels(x);
  const SampleRows rows = {r.graph[x.x].rows, {}, {}};
  const Tensor normed = group_normed(r, name + ".group_norm", x.x, kEpsilon, false);
  const Tensor all =
      projected(r, name + ".to_qkv", normed, {name + ".to_q", name + ".to_k", name + ".to_v"}, width, true);
  const Tensor context =
      attention(r.graph, name, {all, 0}, rows, {all, width}, {all, 2 * width}, rows, 1, width, {}, {});
  const Tensor h = dense(r, name + ".to_out.0", context, width);
  return {add(r.graph, name + ".sum", h, x.x), x.height, x.width};
}

class VaeDecoder final : public Model {
 public:
  explicit VaeDecoder(const VaeConfig& config) : config_(config) {}

  const char* architecture() const override { return kVaeDecoderArchitecture; }
  const char* body_prefix() const override { return ""; }
  FileNames file_names() const override {
    // Names in the published files of Stable Diffusion 1.
    static constexpr NameChange kChanges[] = {
        {".to_q.", ".query."}, {".to_k.", ".key."}, {".to_v.", ".value."}, {".to_out.0.", ".proj_attn."}};
    return FileNames("", kChanges);
  }
  bool may_be_fresh(const std::string&) const override { return false; }
  std::vector<ParameterPiece> unused_tensors() const override { return {}; }
  bool is_ignored(const std::string& tensor) const override {
    return tensor.rfind("encoder.", 0) == 0 || tensor.rfind("quant_conv.", 0) == 0;
  }
  ModelCardWords card() const override { return {"decoder", {}, "", "", ""}; }
  ModelInputs inputs() const override { return {}; }
  Fields fields(const RecordOptions&) const override { return {}; }
  std::vector<Use> uses() const override { return {Use::kDecodeLatents}; }
  Recording record(Graph& graph, Use use, const RecordOptions& options) const override;

 private:
  const VaeConfig config_;
};

Recording VaeDecoder::record(Graph& graph, Use, const RecordOptions& options) const {
  DiffusionRecorder r(graph, options.frozen, config_.norm_num_groups);
  const std::vector<std::int64_t>& channels = config_.block_out_channels;
  const Tensor latents =
      graph.input(kLatents, rows_per_sample(options.drawing.height * options.drawing.width), config_.latent_channels);
  graph.set_scope("decoder.conv_in");
  const Tensor scaled = scale(graph, "scaled", latents, static_cast<float>(1.0 / config_.scaling_factor));
  PictureRows x = {convolution_1x1(r, "post_quant_conv", scaled, config_.latent_channels), options.drawing.height,
                   options.drawing.width};
  x = convolution_3x3(r, "decoder.conv_in", x, channels.back());
  x = residual_block(r, "decoder.mid_block.resnets.0", x, channels.back(), kEpsilon, {});
  x = self_attention(r, "decoder.mid_block.attentions.0", x);
  x = residual_block(r, "decoder.mid_block.resnets.1", x, channels.back(), kEpsilon, {});
  for (std::size_t b = 0; b < channels.size(); ++b) {
    const std::string block = "decoder.up_blocks." + std::to_string(b);
    for (std::int64_t l = 0; l <= config_.layers_per_block; ++l)
      x = residual_block(r, block + ".resnets." + std::to_string(l), x, channels[channels.size() - 1 - b], kEpsilon,
                         {});
    if (b + 1 == channels.size()) break;
    graph.set_scope(block);
    x = upsampled(r, block + ".upsamplers.0.conv", x, 2 * x.height, 2 * x.width);
  }
  graph.set_scope("decoder.conv_out");
  x.x = group_normed(r, "decoder.conv_norm_out", x.x, kEpsilon, true);
  ConvolutionShape last;
  last.height = x.height;
  last.width = x.width;
  const Tensor weight = convolution_weight(r, "decoder.conv_out", kColours, r.channels(x));
  const Tensor picture = convolution(graph, kPicture, x.x, weight, r.bias("decoder.conv_out.bias", kColours), last);
  graph.keep(picture);
  Recording recording;
  recording.outputs = {{kPicture, picture}};
  return recording;
}

std::unique_ptr<Model> open_vae_decoder(const ModelSource& source, const std::string&) {
  return std::make_unique<VaeDecoder>(read_vae_config(source.config_path));
}

}  // namespace

extern const Family kVaeDecoder;
const Family kVaeDecoder = {kVaeDecoderArchitecture, "", {}, {}, {}, open_vae_decoder};

}  // namespace bascule
