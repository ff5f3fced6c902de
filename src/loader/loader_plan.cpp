// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "src/base/align.h"
#include "src/base/error.h"
#include "src/index/picture_folder.h"
#include "src/loader/caption_lengths.h"
#include "src/loader/loader.h"
#include "src/loader/loader_parts.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& what, const std::string& what_to_do = "") {
  throw Error{ErrorKind::kSettings, key, what, what_to_do};
}

void check_special_tokens(const LoaderSettings& settings) {
  if (!reads_text(settings)) return;
  const std::int64_t least = settings.tokenizer->special_tokens(settings.streams.front().manifest->has_pairs());
  if (settings.max_seq_length < least) {
    refuse("data.max_seq_length",
           std::to_string(settings.max_seq_length) + ": a sample has " + std::to_string(least) + " special tokens");
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

StreamPlan plan_stream(const LoaderSettings& settings, const StreamSettings& stream) {
  check_ring(settings, stream);
  const TextSettings text = text_settings(settings, stream.corpus);
  const BatchOrder order(batch_dealing(settings, stream));
  if (stream.shuffled && order.batches_per_epoch() == 0) {
    throw Error{ErrorKind::kData, stream.manifest->where(0),
                std::to_string(stream.manifest->rows()) + " rows do not fill one batch of " +
                    std::to_string(stream.world_size * stream.batch_per_rank),
                "use smaller batches, or data.dataloader_drop_last = false"};
  }
  if (text.exchanges_captions && !stream.manifest->has_labels()) {
    check_negatives(*stream.manifest, text.negatives);
  }
  StreamPlan plan;
  // Without threads a batch is filled while next() waits for it, and nothing in between.
  plan.slots = settings.workers == 0 ? 1 : stream.ring_slots;
  if (stream.corpus != nullptr) {
    plan.longest_caption = stream.corpus->longest();
  } else if (reads_text(settings)) {
    plan.longest_caption = longest_caption(*stream.manifest, text, settings.cache);
  }
  plan.most_masked = max_masked_tokens(text, *stream.manifest, 1, plan.longest_caption);
  const std::int64_t samples = order.max_samples();
  plan.bounds[kSamples] = samples;
  for (const Field& field : settings.fields) {
    if (field.source == FieldSource::kTokenIds) plan.bounds[field.rows.stream] = samples * plan.longest_caption;
    if (field.source == FieldSource::kMaskedRows)
      plan.bounds[field.rows.stream] = max_masked_tokens(text, *stream.manifest, samples, plan.longest_caption);
    if (field.source == FieldSource::kReadRows)
      plan.bounds[field.rows.stream] =
          samples + max_masked_tokens(text, *stream.manifest, samples, plan.longest_caption);
  }
  plan.slot_bytes = slot_bytes(slot_shape(settings, plan));
  return plan;
}

}  // namespace

void check_texts(const LoaderSettings& settings) {
  if (!reads_text(settings)) return;
  const std::int64_t most = settings.max_positions - settings.positions.first;
  if (settings.max_seq_length > most) {
    refuse("data.max_seq_length",
           std::to_string(settings.max_seq_length) + ": the model has positions for at most " + std::to_string(most) +
               " tokens",
           "lower it, or begin with a model that has more positions");
  }
  const std::int64_t tokens = settings.tokenizer->vocabulary_size();
  if (field_from(settings.fields, FieldSource::kMaskedRows) >= 0 && tokens > settings.vocabulary_size) {
    throw Error{ErrorKind::kData, "tokenizer",
                std::to_string(tokens) + " tokens, the model's vocabulary has " +
                    std::to_string(settings.vocabulary_size) + ": random replacements of masked tokens would exceed it",
                "use the tokenizer that belongs to the model"};
  }
}

LoaderPlan plan_loader(const LoaderSettings& settings) {
  check_texts(settings);
  check_special_tokens(settings);
  LoaderPlan plan;
  plan.jobs_per_worker = jobs_per_worker(settings);
  for (const StreamSettings& stream : settings.streams) {
    plan.streams.push_back(plan_stream(settings, stream));
    const StreamPlan& planned = plan.streams.back();
    plan.longest_caption = std::max(plan.longest_caption, planned.longest_caption);
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
  if (settings.counts_labels_ahead)
    plan.label_count_bytes = LabelCount::bytes(scratch_bytes(settings, plan), plan.longest_caption);
  return plan;
}

}  // namespace bascule
