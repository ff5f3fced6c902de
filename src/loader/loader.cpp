// SPDX-License-Identifier: Apache-2.0
#include "src/loader/loader.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/files/input_file.h"
#include "src/loader/loader_parts.h"
#include "src/loader/worker.h"
#include "src/loader/workers.h"

namespace bascule {
namespace {

// Takes parts off the front of the loader's memory.
Span<std::byte> take(Span<std::byte>* memory, std::size_t bytes) {
  const Span<std::byte> part = memory->first(bytes);
  *memory = memory->subspan(bytes, memory->size() - bytes);
  return part;
}

std::vector<Slot> lay_out_slots(const LoaderSettings& settings, const StreamSettings& stream, const StreamPlan& plan,
                                Span<std::byte>* memory) {
  std::vector<Slot> slots;
  for (std::int64_t i = 0; i < plan.slots; ++i) {
    slots.push_back(lay_out_slot(slot_shape(settings, stream, plan), take(memory, plan.slot_bytes)));
  }
  return slots;
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
        *stream.manifest, batch_dealing(settings, stream), sample_settings(settings, stream, plan.streams[i]),
        reads_pictures(settings), stream.shuffled ? settings.random_crops : RandomCrops{},
        augmenting_of(settings, stream), mix_settings(settings, stream),
        lay_out_slots(settings, stream, plan.streams[i], &memory), digests.subspan(pictures, own)));
    pictures += own;
    states.push_back(states_.back().get());
    const Span<std::byte> list = take(&memory, align_up(listed * sizeof(ReplacedSample), kCacheLine));
    lists.push_back(Span<ReplacedSample>(new (list.data()) ReplacedSample[listed], listed));
  }
  workers_ = std::make_unique<Workers>(settings, plan, states, WorkersMemory{buffers, scratch, changed, media});
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

namespace {

std::string media_text(std::int64_t reason) {
  if (reason == kTakenOut) return "its row was removed";
  if (reason == kFileMissing) return "the file is missing";
  if (reason == kEmptyText) return "its source or its target is empty";
  return picture_reason_text(reason);
}

std::string reason_of(const Status& status) {
  const std::int64_t reason = status.detail[1];
  if (status.code == StatusCode::kReadFailed) {
    if (reason == EFBIG)
      return "the file is larger than any file when the data was indexed; touch the manifest to rebuild its index";
    if (reason == ENODATA) return "the shard has become shorter since it was indexed";
    const std::string restore =
        "; restore it and run the same command again, or remove the row and choose another output_dir";
    if (reason == kNotAFile) return "is no longer a file" + restore;
    const std::string problem = std::generic_category().message(static_cast<int>(reason));
    if (reason == ENOENT) return problem + ", though it was there when the data was indexed" + restore;
    const std::string advice = advice_for_open(static_cast<int>(reason));
    return problem + (advice.empty() ? restore : "; " + advice);
  }
  if ((reason & kAllLeftOut) != 0) {
    return media_text(reason & ~kAllLeftOut) +
           "; no row of this file has a readable picture, so there is nothing to evaluate";
  }
  if ((reason & kGaveUp) == 0) {
    return media_text(reason) + "; " +
           (status_of_reason(reason) == MEDIA_ENGINE_PICTURE_TOO_LARGE
                ? "increase media_engine.memory_mib, make the picture smaller"
                : "repair it") +
           ", remove the row, or set data.on_bad_sample = \"skip\"";
  }
  return media_text(reason & ~kGaveUp) + ", and the samples tried before it failed too (up to " +
         std::to_string(kMostBadRows) + ")";
}

}  // namespace

Status all_left_out(const ReplacedSample& first) noexcept {
  return Status{StatusCode::kBadSample, {first.bad_row, first.reason | kAllLeftOut}};
}

// The number of a text in a status: above 0, and whole as a double.
constexpr std::int64_t kTextsOfRow = std::int64_t{1} << 16;

Status bad_vector(std::int64_t step, std::int64_t row, std::int64_t text, bool is_zero) noexcept {
  return Status{StatusCode::kNotFinite, {step, 2 * (row * kTextsOfRow + text + 1) + (is_zero ? 1 : 0)}};
}

std::string bad_picture_text(const ReplacedSample& replaced) { return media_text(replaced.reason); }

std::string describe(const Status& status, const Manifest& manifest) {
  switch (status.code) {
    case StatusCode::kBadSample:
    case StatusCode::kReadFailed: {
      const std::int64_t row = status.detail[0];
      if (manifest.is_taken_out(row)) return manifest.where(row) + ": " + reason_of(status);
      const ManifestRow sample = manifest.row(row);
      const std::string picture = !manifest.has_pictures()    ? ""
                                  : manifest.shards().empty() ? shown_path(manifest.picture_location(sample.image_id))
                                                              : std::string(sample.image_path);
      const std::string where = shown_path(manifest.where(row));  // in a folder of classes the picture itself
      return where + ": " + (picture == where || picture.empty() ? "" : picture + ": ") + reason_of(status);
    }
    case StatusCode::kLongText:
      return shown_path(manifest.where(status.detail[0])) + ": the text has more than " +
             std::to_string(status.detail[1]) +
             " tokens, the cached maximum of this data; remove the .lengths files from Bascule's cache folder and run "
             "the same command again";
    case StatusCode::kNotFinite: {
      const std::int64_t text = status.detail[1] / 2 - 1;
      return shown_path(manifest.where(text / kTextsOfRow)) + ": in update " + std::to_string(status.detail[0]) +
             " the model's vector of text " + std::to_string(text % kTextsOfRow + 1) + " of the row is " +
             (status.detail[1] % 2 == 1 ? "zero" : "not finite");
    }
    // Which picture the device had just then says nothing about the picture.
    case StatusCode::kDeviceFailed: return "media engine: " + media_text(status.detail[1]);
    case StatusCode::kEndOfEpoch: return "no more batches";
    default: return "not a status of the loader";
  }
}

namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& what, const std::string& what_to_do = "") {
  throw Error{ErrorKind::kSettings, key, what, what_to_do};
}

// For messages: where the most tokens of a text are set.
const char* length_of(const LoaderSettings& settings, int text, const StreamSettings* stream = nullptr) {
  if (!reads_text(settings, 1)) return "data.max_seq_length";
  if (text == 0) return "data.max_source_length";
  return stream != nullptr && stream->max_target_length > 0 ? "data.val_max_target_length" : "data.max_target_length";
}

void check_positions(const TextShape& text, const char* key) {
  const std::int64_t most = text.max_positions - text.positions.first;
  if (text.max_positions == 0 || text.max_length <= most) return;
  refuse(key,
         std::to_string(text.max_length) + ": the model has positions for at most " + std::to_string(most) + " tokens",
         "lower it, or begin with a model that has more positions");
}

// A source and a target have a token of their own.
void check_lengths(const LoaderSettings& settings, const StreamSettings& stream) {
  for (int number = 0; number < kMaxTexts; ++number) {
    if (!reads_text(settings, number)) continue;
    const TextSettings text = text_settings(settings, number, stream).front();
    const char* const key = length_of(settings, number, &stream);
    check_positions(text.shape, key);
    const std::int64_t special = special_tokens(text, *stream.manifest);
    const std::int64_t least = special + (text.of_row == kAllTexts && !text.reads_words ? 0 : 1);
    if (text.shape.max_length >= least) continue;
    refuse(key, std::to_string(text.shape.max_length) + ": a sample has " + count_of(special, "special token"),
           "set it to " + std::to_string(least) + " or more");
  }
}

// The checks of a text that need no stream.
void check_text(const LoaderSettings& settings, int number) {
  const TextShape& text = settings.texts[number];
  check_positions(text, length_of(settings, number));
  const std::int64_t tokens = settings.tokenizer->vocabulary_size();
  if (field_from(settings.fields, FieldSource::kMaskedRows, number) >= 0 && tokens > text.vocabulary_size) {
    throw Error{ErrorKind::kData, "tokenizer",
                std::to_string(tokens) + " tokens, the model's vocabulary has " + std::to_string(text.vocabulary_size) +
                    ": random replacements of masked tokens would exceed it",
                "use the tokenizer that belongs to the model"};
  }
}

void check_ring(const LoaderSettings& settings, const StreamSettings& stream) {
  if (settings.workers < 0) refuse("data.dataloader_num_workers", std::to_string(settings.workers) + " is negative");
  if (stream.ring_slots < 2) {
    refuse("data.ring_slots", std::to_string(stream.ring_slots) + ": a slot is filled while another is read",
           "use 2 or more");
  }
}

// How many files a worker reads before their pictures are done. An engine that decodes in the workers' own threads has
// nothing from more than one; one with threads of its own is kept busy by all workers together.
std::int64_t jobs_per_worker(const LoaderSettings& settings) {
  if (!reads_pictures(settings)) return 1;
  const bool works_in_poll = media_engine_query(media_settings(settings).driver).works_in_poll != 0;
  return works_in_poll ? 1 : divide_up(settings.media.queue_depth, worker_count(settings));
}

std::size_t largest_picture_bytes(const Manifest& manifest) {
  return manifest.is_measured() ? manifest.largest_picture_bytes() : PictureFolder(manifest).largest_file_bytes();
}

// Lengths of several texts in a row.
TextPlan measure_in_a_row(const LoaderSettings& settings, const StreamSettings& stream,
                          const std::vector<TextSettings>& texts) {
  TextPlan plan;
  for (const TextSettings& text : texts) {
    plan.in_a_row.push_back(text_lengths(*stream.manifest, text, settings.cache));
    plan.longest = std::max(plan.longest, plan.in_a_row.back().longest);
    plan.cut += plan.in_a_row.back().cut;
  }
  return plan;
}

// Plans the text of that number, and bounds its streams of a batch, whose samples are bounded.
TextPlan plan_text(const LoaderSettings& settings, const StreamSettings& stream, int number,
                   const std::vector<TextSettings>& in_a_row, BatchCounts* bounds) {
  const TextSettings& text = in_a_row.front();
  TextPlan plan;
  if (stream.planned != nullptr) {
    plan = stream.planned[number];
  } else if (stream.corpus != nullptr) {
    plan.longest = stream.corpus->longest();
  } else if (in_a_row.size() > 1) {
    plan = measure_in_a_row(settings, stream, in_a_row);
  } else if (settings.takes_limits && stream.manifest->rows() >= settings.cache.smallest_rows &&
             !has_text_lengths(*stream.manifest, text, settings.cache)) {
    plan.longest = text.shape.max_length;
    plan.is_limit = true;
  } else {
    const TextLengths lengths = text_lengths(*stream.manifest, text, settings.cache);
    plan.longest = text.pads ? text.shape.max_length : lengths.longest;
    plan.cut = lengths.cut;
  }
  plan.most_masked = max_masked_tokens(text, *stream.manifest, 1, plan.longest);
  const std::int64_t samples = bounds->samples();
  const std::int64_t masked = max_masked_tokens(text, *stream.manifest, samples, plan.longest);
  const auto bound = [&](FieldSource source, std::int64_t rows, std::int64_t longest) {
    const int field = field_from(settings.fields, source, number);
    if (field < 0) return;
    const int counted = settings.fields[static_cast<std::size_t>(field)].rows.stream;
    (*bounds)[counted] = rows;
    bounds->longest[counted] = longest;
  };
  bound(FieldSource::kTokenIds, samples * plan.of_sample(), plan.longest);
  bound(FieldSource::kMaskedRows, masked, plan.most_masked);
  bound(FieldSource::kReadRows, samples + masked, 1 + plan.most_masked);
  bound(FieldSource::kLabelledRows, samples * plan.longest, plan.longest);
  return plan;
}

StreamPlan plan_stream(const LoaderSettings& settings, const StreamSettings& stream) {
  check_ring(settings, stream);
  check_lengths(settings, stream);
  const SampleSettings sample = sample_settings(settings, stream);
  const BatchOrder order(batch_dealing(settings, stream));
  if (stream.shuffled && order.batches_per_epoch() == 0) {
    throw Error{ErrorKind::kData, stream.manifest->where(0),
                count_of(stream.manifest->rows(), "row") + (stream.manifest->rows() == 1 ? " does" : " do") +
                    " not fill one batch of " + std::to_string(stream.world_size * stream.batch_per_rank),
                "use smaller batches, or data.dataloader_drop_last = false"};
  }
  if (sample.exchanges_captions && !stream.manifest->has_labels() && !stream.manifest->is_unlabelled()) {
    check_negatives(*stream.manifest, sample.negatives);
  }
  StreamPlan plan;
  // Without threads a batch is filled while next() waits for it, and nothing in between.
  plan.slots = settings.workers == 0 ? 1 : stream.ring_slots;
  const std::int64_t samples = order.max_samples();
  plan.bounds[kSamples] = samples;
  for (int text = 0; text < kMaxTexts; ++text) {
    if (reads_text(settings, text))
      plan.texts[text] = plan_text(settings, stream, text, sample.texts[text], &plan.bounds);
  }
  plan.slot_bytes = slot_bytes(slot_shape(settings, stream, plan));
  return plan;
}

}  // namespace

void check_texts(const LoaderSettings& settings) {
  std::int64_t together = 0;
  for (int text = 0; text < kMaxTexts; ++text) {
    if (!reads_text(settings, text)) continue;
    check_text(settings, text);
    together += settings.texts[text].max_length;
  }
  const bool reads_two = reads_text(settings, 1);
  const std::vector<std::string>& columns = settings.text_columns;
  const std::int64_t of_row =
      static_cast<std::int64_t>(columns.size()) - std::count(columns.begin(), columns.end(), "");
  if (settings.takes_texts_in_a_row) together *= of_row;
  if ((reads_two || settings.takes_texts_in_a_row) && together > kMaxTokensOfTexts) {
    refuse(length_of(settings, 0),
           (reads_two ? "a source and its target" : "the " + std::to_string(of_row) + " texts of a row") +
               " may have " + std::to_string(together) + " tokens together",
           "lower it: they may have at most " + std::to_string(kMaxTokensOfTexts));
  }
}

LoaderPlan plan_loader(const LoaderSettings& settings) {
  check_texts(settings);
  LoaderPlan plan;
  plan.jobs_per_worker = jobs_per_worker(settings);
  for (const StreamSettings& stream : settings.streams) {
    plan.streams.push_back(plan_stream(settings, stream));
    const StreamPlan& planned = plan.streams.back();
    // With words, also one for the token by which a text shows that is longer than planned.
    const std::int64_t more = settings.reads_words ? 1 : 0;
    for (const TextPlan& text : planned.texts) plan.longest_text = std::max(plan.longest_text, text.longest + more);
    if (reads_pictures(settings))
      plan.largest_file_bytes = std::max(plan.largest_file_bytes, largest_picture_bytes(*stream.manifest));
    plan.slots_bytes += static_cast<std::size_t>(planned.slots) * planned.slot_bytes;
    plan.replacement_bytes +=
        align_up(static_cast<std::size_t>(settings.max_replacements) * sizeof(ReplacedSample), kCacheLine);
  }
  const std::size_t workers = static_cast<std::size_t>(worker_count(settings));
  if (reads_pictures(settings)) {
    const MediaSettings media_form = media_settings(settings);
    const media_engine_config media = media_config(media_form);
    plan.picture_bytes = media.picture_bytes;
    plan.media_engine_bytes = align_up(media_engine_memory_needed(&media), kCacheLine);
    plan.encoded_bytes = workers * static_cast<std::size_t>(plan.jobs_per_worker) * buffer_bytes(plan);
  }
  plan.scratch_bytes = workers * scratch_bytes(settings, plan);
  plan.augmenting_bytes = workers * augmenting_bytes(settings);
  if (settings.counts_labels_ahead)
    plan.label_count_bytes = LabelCount::bytes(scratch_bytes(settings, plan), plan.longest_text);
  return plan;
}

}  // namespace bascule
