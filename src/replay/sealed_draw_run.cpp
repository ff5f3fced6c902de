// SPDX-License-Identifier: Apache-2.0
#include "src/replay/sealed_draw_run.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>

#include "kernels/table.h"
#include "src/base/clock.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/distributed/group.h"
#include "src/draw/drawer.h"
#include "src/pictures/picture_bytes.h"

namespace bascule {
namespace {

// Numbers that are not finite have the largest exponent, and so the largest bits but for the sign.
bool are_finite(const float* values, std::int64_t count) noexcept {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof bits);
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  return largest < 0x7f800000u;
}

bool are_finite(ConstElements values, std::int64_t count) noexcept {
  if (!values.is_bf16()) return are_finite(values.float32(), count);
  std::uint16_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<std::uint16_t>(values.bf16()[i] & 0x7fff));
  return largest < 0x7f80;
}

// Adds the time since `since` to a sum.
void add_seconds(double* sum, double since) { *sum += monotonic_seconds() - since; }

}  // namespace

SealedDrawRun::SealedDrawRun(RecordedDrawRun& run, Isa isa, void (*say)(const std::string& line), Group* group)
    : run_(run),
      isa_(isa),
      alone_(group == nullptr ? std::make_unique<Group>(RankPlace{}, GroupOptions{}) : nullptr),
      group_(group == nullptr ? *alone_ : *group),
      threads_(run.threads, run.threads == usable_cores(), &group_.heart(), &group_.position()),
      memory_(std::make_unique<SealedMemory>(run.plan, run.settings.machine.huge_pages, group_)),
      drawer_(run.pipeline, run.recorded, run.program),
      kept_(static_cast<std::size_t>(run.options.prompts), -1),
      used_(kept_.size(), 0),
      prompts_(static_cast<std::size_t>(run.options.batch)) {
  const Arena& arena = memory_->arena();
  run_.session.seal(arena, run_.plan, kernels_for(isa, run.settings.machine), threads_.count(), &group_);
  load(say);
  drawer_.seal(arena.at(run_.plan[kDrawingMemory]), run_.session);
  std::byte* const memory = arena.at(run_.plan[kPictureMemory]);
  bytes_ = static_cast<std::uint8_t*>(static_cast<void*>(memory));
  digests_ = static_cast<std::uint64_t*>(static_cast<void*>(memory + run_.digests_offset()));
  run_.files->seal(memory + run_.files_offset());
  if (run_.settings.draw.latents_file.is_given())
    noise_.resize(static_cast<std::size_t>(run_.recorded.latents.channels * run_.recorded.latents.pixels));
}

// The ranks of a machine share the weights, which the first one reads.
void SealedDrawRun::load(void (*say)(const std::string& line)) {
  const double since = monotonic_seconds();
  StartWork work;
  memory_->touch(&work, threads_, group_);
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
  if (run_.settings.machine.lock_memory) memory_->lock();
  meet(group_, "loading weights");
  if (!group_.is_first()) return;
  char text[64];
  std::snprintf(text, sizeof text, "weights: %s in %.2f s", model.from_scratch ? "made" : "read",
                monotonic_seconds() - since);
  say(text);
}

DrawnQueue SealedDrawRun::queue() const {
  if (group_.size() == 1) return {};
  return {memory_->arena().at(run_.plan[kQueueMemory]), run_.options.batch, run_.latent_digests()};
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
            return are_finite(values, count) ? ok_status() : Status{StatusCode::kNotFinite};
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

std::int32_t SealedDrawRun::place_of(std::int32_t text, std::int64_t batch) noexcept {
  const auto found = std::find(kept_.begin(), kept_.end(), text);
  std::size_t place = static_cast<std::size_t>(found - kept_.begin());
  if (found == kept_.end()) {
    // In place of the one that was not read for longest: there are as many places as a batch has texts.
    place = static_cast<std::size_t>(std::min_element(used_.begin(), used_.end()) - used_.begin());
    kept_[place] = text;
    const std::vector<std::int32_t>& ids = run_.list.texts[static_cast<std::size_t>(text)].ids;
    ++encoded_texts_;
    drawer_.keep_prompt(static_cast<std::int64_t>(place), {ids.data(), ids.size()}, threads_);
  }
  used_[place] = batch;
  return static_cast<std::int32_t>(place);
}

Status SealedDrawRun::set_noise(const ListedPicture& picture, std::int64_t number, std::int64_t place) noexcept {
  if (noise_.empty()) {
    drawer_.draw_noise(place, picture.seed, static_cast<std::uint64_t>(picture.noise));
    return ok_status();
  }
  const std::int64_t count = static_cast<std::int64_t>(noise_.size());
  const StoredTensor& stored = *run_.latents.find(kLatentsTensor);
  BASCULE_TRY(run_.latents.try_read_float32(noise_.data(), stored, number * count, count));
  if (!are_finite(noise_.data(), count)) return {StatusCode::kReadFailed, {number, 0}};
  drawer_.set_noise(place, noise_.data());
  return ok_status();
}

void SealedDrawRun::digest_latents(std::int64_t call, std::int64_t pictures) noexcept {
  const LatentSlots& slots = run_.recorded.latents;
  const std::size_t bytes = static_cast<std::size_t>(slots.pixels * slots.channels) * sizeof(float);
  const std::vector<SamplingCall>& calls = run_.program.calls;
  const int slot = call == 0 ? calls.front().x : calls[static_cast<std::size_t>(call - 1)].next;
  for (std::int64_t place = 0; place < pictures; ++place)
    digests_[place * run_.latent_digests() + call] = digest_of(drawer_.latents(slot, place), bytes);
}

Span<const std::uint64_t> SealedDrawRun::latent_digests(std::int64_t place) const noexcept {
  return {digests_ + place * run_.latent_digests(), static_cast<std::size_t>(run_.latent_digests())};
}

// Takes the digests before the watch is told of the call.
class SealedDrawRun::DigestedCalls final : public DrawingWatch {
 public:
  DigestedCalls(SealedDrawRun& run, std::int64_t pictures, DrawingWatch* watch)
      : run_(run), pictures_(pictures), watch_(watch) {
    run_.digest_latents(0, pictures_);
  }
  int called(std::int64_t call, std::int64_t calls) noexcept override {
    run_.digest_latents(call, pictures_);
    return watch_ != nullptr ? watch_->called(call, calls) : 0;
  }

 private:
  SealedDrawRun& run_;
  const std::int64_t pictures_;
  DrawingWatch* const watch_;
};

Status SealedDrawRun::draw(Span<const std::int64_t> numbers, DrawingWatch* watch, int* signal) noexcept {
  *signal = 0;
  double since = monotonic_seconds();
  ++batches_;
  // Texts that are kept already are marked first, so that none of them makes room for another.
  for (const std::int64_t number : numbers) {
    const ListedPicture& picture = run_.list.pictures[static_cast<std::size_t>(number)];
    for (const std::int32_t text : {picture.prompt, picture.negative}) {
      const auto kept = std::find(kept_.begin(), kept_.end(), text);
      if (kept != kept_.end()) used_[static_cast<std::size_t>(kept - kept_.begin())] = batches_;
    }
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const ListedPicture& picture = run_.list.pictures[static_cast<std::size_t>(numbers[i])];
    prompts_[i].prompt = place_of(picture.prompt, batches_);
    if (run_.options.is_guided()) prompts_[i].negative = place_of(picture.negative, batches_);
    BASCULE_TRY(set_noise(picture, numbers[i], static_cast<std::int64_t>(i)));
  }
  add_seconds(&seconds_.prompts, since);
  since = monotonic_seconds();
  DigestedCalls calls(*this, static_cast<std::int64_t>(numbers.size()), watch);
  *signal = drawer_.draw({prompts_.data(), numbers.size()}, threads_, &calls);
  add_seconds(&seconds_.calls, since);
  return ok_status();
}

const std::uint8_t* SealedDrawRun::decode(std::int64_t place) noexcept {
  const double since = monotonic_seconds();
  const LatentSlots& slots = run_.recorded.latents;
  const float* const latents = drawer_.latents(run_.program.calls.back().next, place);
  if (!are_finite(latents, slots.pixels * slots.channels)) return nullptr;
  drawer_.decode(place, threads_);
  if (!are_finite(drawer_.picture(), 3 * run_.picture_pixels())) return nullptr;
  fill_picture_bytes(bytes_, drawer_.picture(), 3 * run_.picture_pixels());
  add_seconds(&seconds_.decoding, since);
  return bytes_;
}

}  // namespace bascule
