// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "src/base/align.h"
#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/index/picture_folder.h"
#include "src/loader/loader.h"
#include "src/loader/loader_parts.h"
#include "src/loader/text_lengths.h"

namespace bascule {
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
    const TextSettings text = text_settings(settings, number, stream);
    const char* const key = length_of(settings, number, &stream);
    check_positions(text.shape, key);
    const std::int64_t special = special_tokens(text, *stream.manifest);
    const std::int64_t least = special + (text.of_row == RowTexts::kAll && !text.reads_words ? 0 : 1);
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
  return works_in_poll ? 1 : divide_up(settings.queue_depth, worker_count(settings));
}

std::size_t largest_picture_bytes(const Manifest& manifest) {
  return manifest.is_measured() ? manifest.largest_picture_bytes() : PictureFolder(manifest).largest_file_bytes();
}

// Plans the text of that number, and bounds its streams of a batch, whose samples are bounded.
TextPlan plan_text(const LoaderSettings& settings, const StreamSettings& stream, int number, const TextSettings& text,
                   BatchCounts* bounds) {
  TextPlan plan;
  if (stream.planned != nullptr) {
    plan = stream.planned[number];
  } else if (stream.corpus != nullptr) {
    plan.longest = stream.corpus->longest();
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
  bound(FieldSource::kTokenIds, samples * plan.longest, plan.longest);
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
  plan.slot_bytes = slot_bytes(slot_shape(settings, plan));
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
  if (reads_text(settings, 1) && together > kMaxTokensOfTexts) {
    refuse(length_of(settings, 0), "a source and its target may have " + std::to_string(together) + " tokens together",
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
    // Of words, also of the token by which a text shows that is longer than planned.
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
