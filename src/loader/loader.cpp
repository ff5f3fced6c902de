// SPDX-License-Identifier: Apache-2.0
#include "src/loader/loader.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/loader/loader_parts.h"
#include "src/loader/stream_state.h"
#include "src/loader/workers.h"

namespace bascule {
namespace {

// Takes parts off the front of the loader's memory.
Span<std::byte> take(Span<std::byte>* memory, std::size_t bytes) {
  const Span<std::byte> part = memory->first(bytes);
  *memory = memory->subspan(bytes, memory->size() - bytes);
  return part;
}

std::vector<Slot> lay_out_slots(const LoaderSettings& settings, const StreamPlan& plan, Span<std::byte>* memory) {
  std::vector<Slot> slots;
  for (std::int64_t i = 0; i < plan.slots; ++i) {
    slots.push_back(lay_out_slot(slot_shape(settings, plan), take(memory, plan.slot_bytes)));
  }
  return slots;
}

WorkersSettings workers_settings(const LoaderSettings& settings, const LoaderPlan& plan) {
  WorkersSettings workers;
  workers.threads = settings.workers;
  workers.jobs_per_worker = plan.jobs_per_worker;
  workers.buffer_bytes = buffer_bytes(plan);
  workers.scratch_bytes = scratch_bytes(settings, plan);
  workers.augmenting_bytes = augmenting_bytes(settings);
  workers.longest_text = plan.longest_text;
  workers.on_bad_sample = settings.on_bad_sample;
  if (reads_pictures(settings)) workers.media = media_settings(settings);
  return workers;
}

}  // namespace

std::size_t picture_digest_count(const LoaderSettings& settings) {
  std::size_t count = 0;
  if (!reads_pictures(settings)) return count;
  for (const StreamSettings& stream : settings.streams) count += static_cast<std::size_t>(stream.manifest->pictures());
  return count;
}

Loader::Loader(const LoaderSettings& settings, const LoaderPlan& plan, Span<std::byte> memory,
               Span<PictureDigest> digests) {
  BASCULE_CHECK(memory.size() >= plan.total_bytes() && plan.streams.size() == settings.streams.size());
  BASCULE_CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % kCacheLine == 0);
  const Span<std::byte> buffers = take(&memory, plan.encoded_bytes);
  const Span<std::byte> media = take(&memory, plan.media_engine_bytes);
  const Span<std::byte> scratch = take(&memory, plan.scratch_bytes);
  const Span<std::byte> changed = take(&memory, plan.augmenting_bytes);
  const std::size_t listed = static_cast<std::size_t>(settings.max_replacements);
  const Span<std::byte> counting = take(&memory, plan.label_count_bytes);
  if (settings.counts_labels_ahead) label_count_.emplace(counting, plan.longest_text);
  std::vector<StreamState*> states;
  std::vector<Span<ReplacedSample>> lists;
  BASCULE_CHECK(digests.empty() || digests.size() == picture_digest_count(settings));
  std::size_t pictures = 0;  // of the streams before
  for (std::size_t i = 0; i < settings.streams.size(); ++i) {
    const StreamSettings& stream = settings.streams[i];
    const std::size_t own = digests.empty() ? 0 : static_cast<std::size_t>(stream.manifest->pictures());
    states_.push_back(std::make_unique<StreamState>(
        *stream.manifest, batch_dealing(settings, stream), sample_settings(settings, stream), reads_pictures(settings),
        stream.shuffled ? settings.random_crops : RandomCrops{}, augmenting_of(settings, stream),
        mix_settings(settings, stream), lay_out_slots(settings, plan.streams[i], &memory),
        digests.subspan(pictures, own)));
    pictures += own;
    states.push_back(states_.back().get());
    const Span<std::byte> list = take(&memory, align_up(listed * sizeof(ReplacedSample), kCacheLine));
    lists.push_back(Span<ReplacedSample>(new (list.data()) ReplacedSample[listed], listed));
  }
  workers_ = std::make_unique<Workers>(workers_settings(settings, plan), states,
                                       WorkersMemory{buffers, scratch, changed, media});
  for (std::size_t i = 0; i < states.size(); ++i) {
    streams_.push_back(
        std::make_unique<Stream>(*states[i], *workers_, lists[i], label_count_ ? &*label_count_ : nullptr));
  }
}

Loader::~Loader() = default;

Stream& Loader::stream(std::size_t number) noexcept {
  BASCULE_CHECK(number < streams_.size());
  return *streams_[number];
}

Span<PictureDigest> Loader::picture_digests(std::size_t number) noexcept {
  BASCULE_CHECK(number < states_.size());
  return states_[number]->digests;
}

LoaderStatistics Loader::statistics() const noexcept { return workers_->statistics(); }
std::uint64_t Loader::loaded_samples() const noexcept { return workers_->loaded_samples(); }
std::int64_t Loader::row_being_read() const noexcept { return workers_->row_being_read(); }
void Loader::close() noexcept { workers_->close(); }

}  // namespace bascule
