// SPDX-License-Identifier: Apache-2.0
#include "src/loader/loader_parts.h"

#include <algorithm>

#include "src/base/span.h"
#include "src/loader/label_count.h"

namespace bascule {

bool reads_pictures(const LoaderSettings& settings) { return field_from(settings.fields, FieldSource::kPixels) >= 0; }

bool reads_text(const LoaderSettings& settings, int text) {
  return field_from(settings.fields, FieldSource::kTokenIds, text) >= 0;
}

BatchDealing batch_dealing(const LoaderSettings& settings, const StreamSettings& stream) {
  BatchDealing dealing = stream;
  dealing.seed = settings.seed;
  dealing.rows = stream.manifest->rows();
  dealing.dealt = mix_settings(settings, stream).is_on() ? 2 : 1;
  return dealing;
}

Augmenting augmenting_of(const LoaderSettings& settings, const StreamSettings& stream) {
  Augmenting augmenting;
  if (!stream.shuffled || !reads_pictures(settings)) return augmenting;
  augmenting.rand_augment = settings.rand_augment;
  augmenting.color_jitter = settings.color_jitter;
  augmenting.random_erasing = settings.random_erasing;
  std::copy_n(settings.media.mean, 3, augmenting.mean);
  std::copy_n(settings.media.std, 3, augmenting.std);
  augmenting.side = settings.media.image_side;
  return augmenting;
}

MixSettings mix_settings(const LoaderSettings& settings, const StreamSettings& stream) {
  MixSettings mix{settings.seed, 0.0, 0.0, settings.media.image_side};
  if (!stream.shuffled) return mix;
  mix.mixup_alpha = settings.mixup_alpha;
  mix.cutmix_alpha = settings.cutmix_alpha;
  return mix;
}

SampleSettings sample_settings(const LoaderSettings& settings, const StreamSettings& stream, const StreamPlan& plan) {
  SampleSettings sample;
  for (int text = 0; text < kMaxTexts; ++text) {
    sample.texts[text] = text_settings(settings, text, stream);
    const TextPlan& planned = plan.texts[text];
    for (std::size_t i = 0; i < sample.texts[text].size(); ++i)
      sample.texts[text][i].longest = planned.in_a_row.empty() ? planned.longest : planned.in_a_row[i].longest;
  }
  sample.exchanges_captions = field_from(settings.fields, FieldSource::kMatchLabels) >= 0;
  sample.negatives.seed = settings.seed;
  sample.negatives.fraction = settings.negative_fraction;
  return sample;
}

std::vector<TextSettings> text_settings(const LoaderSettings& settings, int number, const StreamSettings& stream) {
  TextSettings text;
  if (!reads_text(settings, number)) return {};
  text.tokenizer = settings.tokenizer;
  text.corpus = stream.corpus;
  text.masks_tokens = field_from(settings.fields, FieldSource::kMaskedRows, number) >= 0;
  if (reads_text(settings, 1)) text.of_row = number;
  text.reads_words = settings.reads_words && number == 0;
  if (text.reads_words) text.further_labels = settings.further_labels;
  text.column = settings.text_columns[static_cast<std::size_t>(number)];
  text.shape = settings.texts[number];
  if (text.of_row == 0) text.prefix = settings.source_prefix;
  if (text.of_row == 1) {
    text.pads = settings.pads_targets;
    if (stream.max_target_length > 0) text.shape.max_length = stream.max_target_length;
  }
  text.masking = settings.masking;
  text.masking.seed = settings.seed;
  text.masking.text = static_cast<std::uint32_t>(number);
  text.masking.counts_special = stream.corpus != nullptr;
  if (settings.tokenizer != nullptr) {
    text.masking.mask_id = settings.tokenizer->mask_id();
    text.masking.vocabulary_size = settings.tokenizer->vocabulary_size();
    text.masking.special_ids = settings.tokenizer->special_ids();
  }
  if (!settings.takes_texts_in_a_row) return {text};
  std::vector<TextSettings> in_a_row(stream.manifest->texts_of_a_row(), text);
  for (std::size_t i = 0; i < in_a_row.size(); ++i) {
    in_a_row[i].of_row = static_cast<int>(i);
    in_a_row[i].column = settings.text_columns[i];
    if (settings.prompts.size() == in_a_row.size()) in_a_row[i].prefix = settings.prompts[i];
  }
  return in_a_row;
}

MediaSettings media_settings(const LoaderSettings& settings) {
  MediaSettings media = settings.media;
  if (media.driver == nullptr) media.driver = media_engine_builtin();
  media.polling_threads = worker_count(settings);
  return media;
}

bool has_text_lengths(const LoaderSettings& settings, const StreamSettings& stream) {
  for (int text = 0; text < kMaxTexts; ++text) {
    for (const TextSettings& one : text_settings(settings, text, stream)) {
      if (!has_text_lengths(*stream.manifest, one, settings.cache)) return false;
    }
  }
  return true;
}

SlotShape slot_shape(const LoaderSettings& settings, const StreamSettings& stream, const StreamPlan& plan) {
  return {stream.fields.empty() ? &settings.fields : &stream.fields, plan.bounds};
}

std::size_t longest_text_bytes(const LoaderSettings& settings) {
  std::size_t longest = 0;
  for (const StreamSettings& stream : settings.streams) {
    longest = std::max(longest, stream.manifest->longest_text_bytes());
  }
  return longest;
}

std::size_t scratch_bytes(const LoaderSettings& settings, const LoaderPlan& plan) {
  std::size_t tokenizer = 0;
  for (int text = 0; text < kMaxTexts; ++text) {
    for (const TextSettings& one : text_settings(settings, text, settings.streams.front()))
      tokenizer = std::max(tokenizer, encode_scratch_bytes(one, longest_text_bytes(settings)));
  }
  return TextScratch::bytes(tokenizer, plan.longest_text);
}

std::size_t augmenting_bytes(const LoaderSettings& settings) {
  std::size_t most = 0;
  for (const StreamSettings& stream : settings.streams)
    most = std::max(most, augmenting_scratch_bytes(augmenting_of(settings, stream)));
  return most;
}

std::size_t buffer_bytes(const LoaderPlan& plan) {
  return plan.picture_bytes == 0 ? 0 : align_up(plan.largest_file_bytes + 1, kCacheLine);
}

std::int64_t worker_count(const LoaderSettings& settings) { return std::max(settings.workers, std::int64_t{1}); }

}  // namespace bascule
