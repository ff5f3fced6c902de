// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_draw_run.h"

#include <algorithm>
#include <cstdio>
#include <deque>

#include "kernels/table.h"
#include "src/base/clock.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "src/record/resume_check.h"
#include "src/runtime/choose_isa.h"

namespace bascule {
namespace {

constexpr char kTokenizerName[] = "tokenizer", kNoiseName[] = "latents", kWeightsName[] = "weights";

bool values_are_finite(ConstElements values, std::int64_t count) noexcept {
  if (!values.is_bf16()) return are_finite(values.float32(), count);
  std::uint16_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<std::uint16_t>(values.bf16()[i] & 0x7fff));
  return largest < 0x7f80;
}

// A digest that differs: the text of the message, and the key that says where the files are.
struct Difference {
  std::string text;
  const char* key;
};

Difference difference_in(const std::string& name, const PathSetting& tokenizer) {
  const char* const model = "model.model_name_or_path";
  if (name == kNoiseName) return {"the noise differs", "draw.latents_file"};
  if (name == kWeightsName) return {"the weights differ", model};
  if (name != kTokenizerName) return {name + " differs", model};
  return {"the tokenizer differs", tokenizer.is_given() ? "model.tokenizer_name" : model};
}

}  // namespace

SealedDrawRun::SealedDrawRun(RecordedDrawRun& run, Isa isa, void (*say)(const std::string& line), Group* group,
                             bool simulates)
    : run_(run),
      alone_(group == nullptr ? std::make_unique<Group>(RankPlace{}, GroupOptions{}) : nullptr),
      group_(group == nullptr ? *alone_ : *group),
      memory_(run.plan, run.settings.machine.huge_pages, group_),
      threads_(simulates ? Threads(SimulatedThreads{run.threads, run.threads > usable_cores()})
                         : Threads(run.threads, run.threads == usable_cores(), &group_.heart(), &group_.position())),
      drawer_(run) {
  run_.session.seal(memory_.arena(), run_.plan, kernels_for(isa, run.settings.machine), threads_.count(), &group_);
  load(say);
  drawer_.seal(memory_.arena(), threads_);
}

// The ranks of a machine share the weights, which the first one reads.
void SealedDrawRun::load(void (*say)(const std::string& line)) {
  const double since = monotonic_seconds();
  StartWork work;
  memory_.touch(&work, threads_, group_);
  std::vector<TensorSource> sources;
  const ModelSettings& model = run_.settings.model;
  if (group_.is_first()) {
    for (const std::string& note :
         load_pipeline(&work, run_.pipeline, run_.session.parameter_memory(),
                       static_cast<std::uint64_t>(run_.settings.run.seed), model.from_scratch, &sources))
      say(note);
  }
  work.run(threads_);
  if (group_.is_first()) check_weights();
  if (run_.settings.machine.lock_memory) memory_.lock();
  meet(group_, "loading weights");
  if (!group_.is_first()) return;
  char text[64];
  std::snprintf(text, sizeof text, "weights: %s in %.2f s", model.from_scratch ? "made" : "read",
                monotonic_seconds() - since);
  say(text);
}

DrawnQueue SealedDrawRun::queue() const {
  if (group_.size() == 1) return {};
  return {memory_.arena().at(run_.plan[kQueueMemory]), run_.options.batch, run_.latent_digests()};
}

// Refuses numbers that are not finite by the name of their tensor, as a picture would only show that something is
// wrong, and takes the digest of all. One pass over the memory, by all threads: at published size a fraction of a
// second.
void SealedDrawRun::check_weights() {
  const ParameterMemory memory = run_.session.parameter_memory();
  std::deque<std::uint64_t> digests;  // by piece; the work points into it
  StartWork work;
  for (int p = 0; p < memory.set->size(); ++p) {
    for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
      const ConstElements values = memory.elements(p) + piece.first_element;
      const std::int64_t count = piece.elements;
      const std::size_t bytes =
          static_cast<std::size_t>(count) * (values.is_bf16() ? sizeof(std::uint16_t) : sizeof(float));
      digests.push_back(digest_of(piece.name.data(), piece.name.size()));
      std::uint64_t* const digest = &digests.emplace_back();
      work.add(
          StartWork::Kind::kComputing, static_cast<std::int64_t>(bytes),
          [=] {
            *digest = digest_of(values.data, bytes);
            return values_are_finite(values, count) ? ok_status() : Status{StatusCode::kNotFinite};
          },
          [folder = run_.pipeline.folder, name = piece.name](const Status&) {
            return Error(ErrorKind::kData, folder, "tensor " + name + " has numbers that are not finite",
                         "the weights are damaged");
          });
    }
  }
  work.run(threads_);
  Digest all;
  for (const std::uint64_t digest : digests) all.add_number(digest);
  weights_digest_ = all.value();
}

std::vector<NamedText> SealedDrawRun::drawn_from() const {
  std::vector<NamedText> digests;
  const auto add = [&](const std::string& name, std::uint64_t digest) {
    digests.push_back({name, std::string(DigestText(digest).text())});
  };
  const auto add_json = [&](const std::string& name) {
    add(name, json_digest(read_json_file(run_.pipeline.folder + "/" + name)));
  };
  for (const Part* part : {&run_.pipeline.text_encoder, &run_.pipeline.noise_predictor, &run_.pipeline.decoder})
    add_json(part->name + "/config.json");
  add_json("scheduler/scheduler_config.json");
  add(kTokenizerName, run_.tokenizer_digest);
  add(kWeightsName, weights_digest_);
  if (!run_.settings.draw.latents_file.is_given()) return digests;
  Digest noise;
  add_values(run_.latents, *run_.latents.find(kLatentsTensor), &noise);
  add(kNoiseName, noise.value());
  return digests;
}

void SealedDrawRun::check_drawn_from(const std::vector<NamedText>& then, const std::vector<NamedText>& now) const {
  const Settings& settings = run_.settings;
  for (const NamedText& one : now) {
    const std::string* const was = find_value(then, one.name);
    if (was == nullptr || *was == one.value) continue;
    const Difference difference = difference_in(one.name, settings.model.tokenizer_name);
    throw Error(ErrorKind::kData, where_written(settings, difference.key),
                std::string(difference.key) + ": " + difference.text + " from what the pictures in " +
                    settings.run.output_dir.shown() + " were drawn with (digest " + one.value + ", was " + *was + ")",
                "restore the files, choose another folder, or set draw.resume = \"never\" to draw all anew");
  }
}

}  // namespace bascule
