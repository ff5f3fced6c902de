// SPDX-License-Identifier: Apache-2.0
#include "src/generate/pipeline.h"

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

constexpr char kIndexFile[] = "/model_index.json";
constexpr WeightsStem kTransformersHalf = {"model.fp16", "pytorch_model.fp16"};
constexpr WeightsStem kDiffusersHalf = {"diffusion_pytorch_model.fp16", "diffusion_pytorch_model.fp16"};

struct PartClass {
  const char* name;
  std::vector<const char*> classes;  // of Diffusers or Transformers that are supported
};

void refuse(const std::string& path, const std::string& what, const std::string& what_to_do = "") {
  throw Error(ErrorKind::kData, path, what, what_to_do);
}

// The class of an entry [library, class]; "" where it is null or not there.
std::string class_of(const Json& index, const std::string& name) {
  const Json* const entry = index.find(name);
  if (entry == nullptr || !entry->is_array() || entry->size() != 2 || !(*entry)[1].is_string()) return "";
  return (*entry)[1].string();
}

void check_classes(const Json& index, const std::string& path) {
  const std::string pipeline = get_string(index, "_class_name", path);
  if (pipeline != "StableDiffusionPipeline")
    throw UnknownFamily(path, "is of a " + pipeline + ", which is not supported", "only StableDiffusionPipeline is");
  const PartClass kParts[] = {{kTextEncoderPart, {"CLIPTextModel"}},
                              {kUnetPart, {"UNet2DConditionModel"}},
                              {kVaePart, {"AutoencoderKL"}},
                              {"tokenizer", {"CLIPTokenizer", "CLIPTokenizerFast"}}};
  for (const auto& [name, classes] : kParts) {
    const std::string found = class_of(index, name);
    if (found.empty()) refuse(path, std::string("has no \"") + name + "\", which the pipeline needs");
    if (std::none_of(classes.begin(), classes.end(), [&](const char* one) { return found == one; }))
      throw UnknownFamily(path, std::string("\"") + name + "\" is a " + found + ", which is not supported",
                          std::string("only ") + classes.front() + " is");
  }
  if (class_of(index, "scheduler").empty()) refuse(path, "has no \"scheduler\", which the pipeline needs");
}

// Weights in half precision have files of their own name, beside the others or in their place.
WeightsStem stem_of(const std::string& folder, const WeightsStem& whole, const WeightsStem& half) {
  const auto has = [&](const WeightsStem& stem) {
    for (const std::string& name : names_in(folder)) {
      for (const char* start : {stem.safetensors, stem.bin}) {
        const std::string dot = std::string(start) + ".", dash = std::string(start) + "-";
        if (name.rfind(dot + "safetensors", 0) == 0 || name.rfind(dot + "bin", 0) == 0 || name.rfind(dash, 0) == 0)
          return true;
      }
    }
    return false;
  };
  return !has(whole) && has(half) ? half : whole;
}

std::string text(std::int64_t number) { return std::to_string(number); }

void check_fit(const Pipeline& pipeline) {
  if (pipeline.unet.cross_attention_dim != pipeline.text.hidden_size)
    refuse(pipeline.noise_predictor.folder + "/config.json",
           "cross_attention_dim = " + text(pipeline.unet.cross_attention_dim) +
               ", but the text encoder's hidden_size is " + text(pipeline.text.hidden_size),
           "the parts are of different pipelines");
  if (pipeline.unet.in_channels != pipeline.vae.latent_channels)
    refuse(pipeline.noise_predictor.folder + "/config.json",
           "in_channels = " + text(pipeline.unet.in_channels) + ", but the decoder's latent_channels are " +
               text(pipeline.vae.latent_channels),
           "the parts are of different pipelines");
}

}  // namespace

bool is_pipeline_folder(const std::string& folder) { return std::filesystem::exists(folder + kIndexFile); }

Pipeline open_pipeline(const std::string& folder) {
  const std::string path = folder + kIndexFile;
  Pipeline pipeline;
  pipeline.folder = folder;
  require_model_folder(folder);
  if (!is_pipeline_folder(folder)) {
    refuse(path, "is missing: the folder holds no pipeline",
           "name a folder that Diffusers saved, with text_encoder, unet, vae, scheduler and tokenizer");
  }
  const Json index = read_json_file(path);
  if (!index.is_object()) refuse(path, "is not a JSON object");
  check_classes(index, path);
  const auto stem = [&](const char* part, const WeightsStem& whole, const WeightsStem& half) {
    return stem_of(folder + "/" + part, whole, half);
  };
  std::vector<Part> parts =
      open_parts(folder, {{kTextEncoderPart, kBareModel, stem(kTextEncoderPart, {}, kTransformersHalf)},
                          {kUnetPart, kBareModel, stem(kUnetPart, kDiffusersWeights, kDiffusersHalf)},
                          {kVaePart, kBareModel, stem(kVaePart, kDiffusersWeights, kDiffusersHalf)}});
  pipeline.text_encoder = std::move(parts[0]);
  pipeline.noise_predictor = std::move(parts[1]);
  pipeline.decoder = std::move(parts[2]);
  const Use kUses[] = {Use::kEncodePrompt, Use::kPredictNoise, Use::kDecodeLatents};
  const Part* const kParts[] = {&pipeline.text_encoder, &pipeline.noise_predictor, &pipeline.decoder};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!serves(*kParts[i]->model, kUses[i]))
      refuse(kParts[i]->folder + "/config.json", std::string("a ") + kParts[i]->model->architecture() +
                                                     " cannot be the \"" + kParts[i]->name + "\" of this pipeline");
  }
  pipeline.text = read_clip_text_config(pipeline.text_encoder.folder + "/config.json");
  pipeline.unet = read_unet_config(pipeline.noise_predictor.folder + "/config.json");
  pipeline.vae = read_vae_config(pipeline.decoder.folder + "/config.json");
  check_fit(pipeline);
  for (const char* aside : {"safety_checker", "image_encoder"}) {
    if (!class_of(index, aside).empty())
      pipeline.notes.push_back(std::string(aside) + " of the folder is not used: no picture is checked or read");
  }
  return pipeline;
}

void check_picture_side(const Pipeline& pipeline, std::int64_t side, const std::string& where, const std::string& key) {
  const std::int64_t unit = std::max<std::int64_t>(8, pipeline.factor());
  if (side >= unit && side % unit == 0) return;
  throw Error(ErrorKind::kSettings, where, key + " = " + text(side) + " is not a multiple of " + text(unit),
              side < unit
                  ? "the smallest one is " + text(unit)
                  : "the nearest ones are " + text(side / unit * unit) + " and " + text((side / unit + 1) * unit));
}

std::vector<std::string> load_pipeline(StartWork* work, const Pipeline& pipeline, const ParameterMemory& memory,
                                       std::uint64_t seed, bool fresh, std::vector<TensorSource>* sources) {
  std::vector<std::string> notes;
  if (fresh) {
    initialise_parameters(work, memory, seed);
    return notes;
  }
  sources->reserve(3);  // they are read where they lie
  for (const Part* part : {&pipeline.text_encoder, &pipeline.noise_predictor, &pipeline.decoder}) {
    sources->push_back(open_hf_weights(part->folder, part->stem));
    const LoadReport report = load_parameters(work, sources->back(), memory, *part->model, seed, false, part->name);
    const std::string left_out = names_left_out(report, *part->model);
    if (!left_out.empty()) notes.push_back(part->name + ": weights: not used: " + left_out);
  }
  return notes;
}

PromptTokenizer::PromptTokenizer(const Pipeline& pipeline, const std::string& folder)
    : length_(pipeline.prompt_tokens()),
      folder_(folder.empty() ? pipeline.tokenizer_folder() : folder),
      tokenizer_(load_tokenizer(folder_)),
      decoder_(load_token_decoder(folder_)) {
  if (tokenizer_->vocabulary_size() > pipeline.text.vocab_size)
    throw Error(ErrorKind::kData, folder_,
                "has " + std::to_string(tokenizer_->vocabulary_size()) + " tokens, but the text encoder has only " +
                    std::to_string(pipeline.text.vocab_size),
                "the parts are of different pipelines");
}

std::size_t PromptTokenizer::scratch_bytes(std::size_t text_bytes) const {
  return align_up(static_cast<std::size_t>(length_ + 1) * sizeof(std::int32_t), kCacheLine) +
         tokenizer_->scratch_bytes(text_bytes);
}

bool PromptTokenizer::encode_into(std::string_view text, bool cuts, std::int32_t* ids,
                                  Span<std::byte> scratch) const noexcept {
  // One id more than there may be, so that a text that is too long shows.
  const std::size_t length = static_cast<std::size_t>(length_), front = scratch_bytes(0) - tokenizer_->scratch_bytes(0);
  const Span<std::int32_t> room{static_cast<std::int32_t*>(static_cast<void*>(scratch.data())), length + 1};
  const Span<std::byte> rest = scratch.subspan(front, scratch.size() - front);
  Encoded encoded;
  if (!tokenizer_->encode_into({text}, room, &encoded, rest).ok()) return false;
  if (encoded.tokens > length_) {
    if (!cuts || !tokenizer_->encode_into({text}, room.first(length), &encoded, rest).ok()) return false;
  }
  std::fill(std::copy_n(room.data(), encoded.tokens, ids), ids + length_, tokenizer_->pad_id());
  return true;
}

EncodedPrompt PromptTokenizer::encode(const std::string& text, const std::string& where) const {
  try {
    return encode_prompt(*tokenizer_, *decoder_, text, length_);
  } catch (const Error& error) {
    throw Error(error.kind(), where, error.problem(), error.what_to_do());
  }
}

}  // namespace bascule
