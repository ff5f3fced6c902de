// SPDX-License-Identifier: Apache-2.0
#include "src/seal/drawn_from.h"

#include <algorithm>
#include <cstdint>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr char kTokenizerName[] = "tokenizer", kNoiseName[] = "latents", kWeightsName[] = "weights";

std::string hex(std::uint64_t digest) { return std::string(DigestText(digest).text()); }

std::uint64_t values_digest(const TensorSource& source, const StoredTensor& stored) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 20;
  const std::int64_t count = element_count(stored.shape);
  std::vector<float> block(static_cast<std::size_t>(std::min(count, kBlock)));
  Digest digest;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t part = std::min(count - first, kBlock);
    source.read_float32(block.data(), stored, first, part);
    digest.add(block.data(), static_cast<std::size_t>(part) * sizeof(float));
  }
  return digest.value();
}

// A digest that differs: the text of the message, and the key that says where the files are.
struct Difference {
  std::string text;
  const char* key;
};

Difference difference_in(const std::string& name, const Settings& settings) {
  const char* const model = "model.model_name_or_path";
  if (name == kNoiseName) return {"the noise differs", "draw.latents_file"};
  if (name == kWeightsName) return {"the weights differ", model};
  if (name != kTokenizerName) return {name + " differs", model};
  return {"the tokenizer differs", settings.model.tokenizer_name.is_given() ? "model.tokenizer_name" : model};
}

}  // namespace

std::vector<NamedText> drawn_from(const RecordedDrawRun& run, const SealedDrawRun& sealed) {
  std::vector<NamedText> digests;
  const Pipeline& pipeline = run.pipeline;
  const auto add_json = [&](const std::string& name) {
    digests.push_back({name, hex(json_digest(read_json_file(pipeline.folder + "/" + name)))});
  };
  for (const Part* part : {&pipeline.text_encoder, &pipeline.noise_predictor, &pipeline.decoder})
    add_json(part->name + "/config.json");
  add_json("scheduler/scheduler_config.json");
  digests.push_back({kTokenizerName, hex(run.tokenizer_digest)});
  digests.push_back({kWeightsName, hex(sealed.weights_digest())});
  if (run.settings.draw.latents_file.is_given())
    digests.push_back({kNoiseName, hex(values_digest(run.latents, *run.latents.find(kLatentsTensor)))});
  return digests;
}

void check_drawn_from(const Settings& settings, const std::vector<NamedText>& then, const std::vector<NamedText>& now) {
  for (const NamedText& one : now) {
    const auto was =
        std::find_if(then.begin(), then.end(), [&](const NamedText& other) { return other.name == one.name; });
    if (was == then.end() || was->value == one.value) continue;
    const Difference difference = difference_in(one.name, settings);
    throw Error(ErrorKind::kData, where_written(settings, difference.key),
                std::string(difference.key) + ": " + difference.text + " from what the pictures in " +
                    settings.run.output_dir.shown() + " were drawn with (digest " + one.value + ", was " + was->value +
                    ")",
                "restore the files, choose another folder, or set draw.resume = \"never\" to draw all anew");
  }
}

}  // namespace bascule
