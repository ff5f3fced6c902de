// SPDX-License-Identifier: Apache-2.0
// A pipeline's folder, and its tokenizer for prompts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/models/pipeline_configs.h"
#include "src/session/model_folder.h"
#include "src/session/session.h"
#include "src/text/tokenizer.h"

namespace bascule {

// A folder that Diffusers saved for Stable Diffusion 1 or 2, opened: its models, checked against each other. Before the
// seal; throws Error kData naming the file.

inline constexpr char kTextEncoderPart[] = "text_encoder", kUnetPart[] = "unet", kVaePart[] = "vae";

struct Pipeline {
  std::string folder;
  ClipTextConfig text;
  UnetConfig unet;
  VaeConfig vae;
  Part text_encoder, noise_predictor, decoder;
  std::vector<std::string> notes;  // for people: parts that are left aside

  std::string tokenizer_folder() const { return folder + "/tokenizer"; }
  std::string scheduler_file() const { return folder + "/scheduler/scheduler_config.json"; }
  // Pixels for each latent, along a side.
  std::int64_t factor() const { return vae.factor(); }
  // The side of a picture where the settings name none; 0: the UNet's config.json names none.
  std::int64_t default_side() const { return unet.sample_size * factor(); }
  std::int64_t prompt_tokens() const { return text.max_position_embeddings; }
};

// Whether the folder holds a pipeline: it has a model_index.json.
bool is_pipeline_folder(const std::string& folder);
Pipeline open_pipeline(const std::string& folder);

// Refuses sides that are no multiples of 8 and of the factor, as Diffusers does; where: of the settings, for the error.
void check_picture_side(const Pipeline& pipeline, std::int64_t side, const std::string& where, const std::string& key);

// Adds reading the weights of all parts to the work. Returns what the files hold and nothing uses, for people.
// fresh: makes them by the laws of fresh values instead.
std::vector<std::string> load_pipeline(StartWork* work, const Pipeline& pipeline, const ParameterMemory& memory,
                                       std::uint64_t seed, bool fresh, std::vector<TensorSource>* sources);

// The tokenizer of a pipeline's folder, for prompts of the length that its text encoder reads. Before the seal.

class PromptTokenizer {
 public:
  // folder: of a tokenizer in place of the pipeline's own; "": its own. Throws Error kData, also where the tokenizer
  // has ids that the text encoder does not.
  explicit PromptTokenizer(const Pipeline& pipeline, const std::string& folder = "");

  // where: for the error of a text that is not UTF-8.
  EncodedPrompt encode(const std::string& text, const std::string& where) const;

  // The same into as many ids, after the seal; a longer text is cut where `cuts`. Returns whether it is there whole, or
  // is cut where it may be. scratch: scratch_bytes().
  bool encode_into(std::string_view text, bool cuts, std::int32_t* ids, Span<std::byte> scratch) const noexcept;
  std::size_t scratch_bytes(std::size_t text_bytes) const;
  const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }

  // Equal for tokenizers whose files say the same.
  std::uint64_t digest() const noexcept { return tokenizer_->digest(); }

 private:
  const std::int64_t length_;
  const std::string folder_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::unique_ptr<const TokenDecoder> decoder_;
};

}  // namespace bascule
