// SPDX-License-Identifier: Apache-2.0
#include "src/loader/write_text.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {
namespace {

std::size_t label_bytes(std::int64_t longest) noexcept {
  return align_up(static_cast<std::size_t>(longest) * sizeof(std::int32_t), kCacheLine);
}

// A text is one that text_lengths() has seen pass. Padded, it fills `ids`. Of words, scratch.labels has their numbers.
Encoded tokenise(const Manifest& manifest, const TextSettings& settings, std::int64_t row, Span<std::int32_t> ids,
                 TextScratch& scratch) noexcept {
  if (settings.corpus != nullptr) return settings.corpus->write(row, ids);
  Encoded encoded;
  if (settings.reads_words) {
    EncodedWords words;
    const std::string_view text = manifest.row(row).text;
    BASCULE_CHECK(settings.tokenizer
                      ->encode_words_into(text, ids, scratch.labels.first(ids.size()), false, &words, scratch.tokenizer)
                      .ok());
    encoded.tokens = encoded.second_begin = words.tokens;
    return encoded;
  }
  BASCULE_CHECK(encode_text(manifest, settings, row, ids, &encoded, scratch.tokenizer).ok());
  if (settings.pads) {
    std::fill(ids.begin() + encoded.tokens, ids.end(), settings.shape.pad_id);
    encoded.tokens = encoded.second_begin = static_cast<std::int64_t>(ids.size());
  }
  return encoded;
}

// A text that is being appended: its number, and the batch's rows of it, from first_row on.
struct Appended {
  Slot* slot;
  int number;
  std::int64_t first_row;
  Span<std::int32_t> ids;

  TextSlot& text() const noexcept { return slot->texts[number]; }
  // The key of one of its tokens, by the batch's row.
  std::uint64_t key(const TextSample& sample, std::int64_t row) const noexcept {
    return text_row_key(sample.number, number, static_cast<std::uint64_t>(row - sample.first_row));
  }
};

// Masks the text's tokens and appends those selected to the batch's list.
void mask_text(const Appended& to, const TextSample& sample, const TextSettings& settings,
               Span<std::int32_t> labels) noexcept {
  const TextSlot& text = to.text();
  mask_tokens(to.ids, labels, settings.masking, to.slot->place.epoch, sample.row);
  std::int64_t& masked = to.slot->batch.counts[text.masked_stream];
  for (std::size_t i = 0; i < to.ids.size(); ++i) {
    if (labels[i] == kUnlabelled) continue;
    BASCULE_CHECK(masked < to.slot->bounds[text.masked_stream]);
    text.masked_rows[masked] = static_cast<std::int32_t>(to.first_row) + static_cast<std::int32_t>(i);
    text.masked_labels[masked++] = labels[i];
  }
}

// Lists the rows of the text that a head reads. masked: the batch's masked tokens before it.
void list_read_rows(const Appended& to, const TextSample& sample, std::int64_t masked) noexcept {
  const TextSlot& text = to.text();
  std::int64_t& read = to.slot->batch.counts[text.read_stream];
  const auto add = [&](std::int64_t row) {
    BASCULE_CHECK(read < to.slot->bounds[text.read_stream]);
    if (text.read_row_keys != nullptr) text.read_row_keys[read] = to.key(sample, row);
    text.read_rows[read++] = static_cast<std::int32_t>(row);
  };
  add(to.first_row);
  for (; masked < to.slot->batch.counts[text.masked_stream]; ++masked) {
    if (text.masked_rows[masked] != to.first_row) add(text.masked_rows[masked]);
    text.masked_among_read[masked] = static_cast<std::int32_t>(read - 1);
  }
  text.read_offsets[sample.text + 1] = static_cast<std::int32_t>(read);
}

// A decoder reads each token one row further on.
void write_decoder_ids(std::int32_t* decoder_ids, Span<const std::int32_t> ids, std::int32_t start_id) noexcept {
  if (ids.empty()) return;
  decoder_ids[0] = start_id;
  std::copy(ids.begin(), ids.end() - 1, decoder_ids + 1);
}

// Appends every token of the text to the batch's list of labelled ones.
void label_text(const Appended& to) noexcept {
  const TextSlot& text = to.text();
  std::int64_t& labelled = to.slot->batch.counts[text.labelled_stream];
  BASCULE_CHECK(labelled + static_cast<std::int64_t>(to.ids.size()) <= to.slot->bounds[text.labelled_stream]);
  for (std::size_t i = 0; i < to.ids.size(); ++i) {
    text.labelled_rows[labelled] = static_cast<std::int32_t>(to.first_row) + static_cast<std::int32_t>(i);
    text.token_labels[labelled++] = to.ids[i];
  }
}

// Appends the tokens that have their word's tag to the batch's list. words_of: as encode_words_into() writes them.
void label_words(const Appended& to, const TextSample& sample, const Manifest& manifest, const TextSettings& settings,
                 Span<const std::int32_t> words_of) noexcept {
  const TextSlot& text = to.text();
  std::int64_t& labelled = to.slot->batch.counts[text.labelled_stream];
  for (std::size_t i = 0; i < to.ids.size(); ++i) {
    const std::int32_t word = words_of[i];
    const bool is_first = i == 0 || words_of[i - 1] != word;
    if (word < 0 || (!is_first && settings.further_labels.empty())) continue;
    BASCULE_CHECK(labelled < to.slot->bounds[text.labelled_stream]);
    const int tag = manifest.tag(sample.text_row, static_cast<std::size_t>(word));
    text.labelled_rows[labelled] = static_cast<std::int32_t>(to.first_row) + static_cast<std::int32_t>(i);
    text.labelled_words[labelled] = word;
    text.token_labels[labelled++] = is_first ? tag : settings.further_labels[static_cast<std::size_t>(tag)];
  }
}

void write_positions(std::int32_t* positions, Span<const std::int32_t> ids, PositionRule rule) noexcept {
  std::int32_t counted = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) positions[i] = rule.next(ids[i], &counted);
}

void write_types(std::int32_t* types, const Encoded& encoded, std::int32_t second_type) noexcept {
  std::fill(types, types + encoded.second_begin, 0);
  std::fill(types + encoded.second_begin, types + encoded.tokens, second_type);
}

void write_keys(const Appended& to, const TextSample& sample) noexcept {
  const std::int64_t end = to.first_row + static_cast<std::int64_t>(to.ids.size());
  for (std::int64_t row = to.first_row; row < end; ++row) to.text().row_keys[row] = to.key(sample, row);
}

}  // namespace

std::size_t TextScratch::bytes(std::size_t tokenizer_bytes, std::int64_t longest_text) noexcept {
  return align_up(tokenizer_bytes, kCacheLine) + label_bytes(longest_text);
}

TextScratch::TextScratch(Span<std::byte> memory, std::int64_t longest_text) noexcept
    : tokenizer(memory.first(memory.size() - label_bytes(longest_text))),
      labels(static_cast<std::int32_t*>(static_cast<void*>(memory.data() + memory.size() - label_bytes(longest_text))),
             static_cast<std::size_t>(longest_text)) {}

std::int64_t special_tokens(const TextSettings& settings, const Manifest& manifest) noexcept {
  return settings.tokenizer->special_tokens(settings.of_row == kAllTexts && manifest.has_pairs());
}

std::size_t encode_scratch_bytes(const TextSettings& settings, std::size_t longest_text_bytes) noexcept {
  const std::size_t whole = longest_text_bytes + settings.prefix.size();
  if (settings.reads_words) return settings.tokenizer->word_scratch_bytes(whole);
  return settings.tokenizer->scratch_bytes(whole) + (settings.prefix.empty() ? 0 : align_up(whole, kCacheLine));
}

// The prefix and the text are laid end to end at the front of the scratch; the tokenizer's begins as aligned as this.
Status encode_text(const Manifest& manifest, const TextSettings& settings, std::int64_t row, Span<std::int32_t> ids,
                   Encoded* encoded, Span<std::byte> scratch) noexcept {
  const Texts texts = texts_of(manifest, row, settings.of_row);
  if (settings.prefix.empty()) return settings.tokenizer->encode_into(texts, ids, encoded, scratch);
  const std::size_t whole = settings.prefix.size() + texts.first.size();
  const std::size_t front_bytes = align_up(whole, kCacheLine);
  BASCULE_CHECK(!texts.second && front_bytes <= scratch.size());
  char* const front = static_cast<char*>(static_cast<void*>(scratch.data()));
  std::copy(texts.first.begin(), texts.first.end(), std::copy(settings.prefix.begin(), settings.prefix.end(), front));
  return settings.tokenizer->encode_into({std::string_view(front, whole)}, ids, encoded,
                                         scratch.subspan(front_bytes, scratch.size() - front_bytes));
}

Span<std::int32_t> tokens_of(const Manifest& manifest, const TextSettings& settings, std::int64_t row,
                             Span<std::int32_t> ids, TextScratch& scratch) noexcept {
  const std::size_t room = std::min(ids.size(), static_cast<std::size_t>(settings.shape.max_length));
  return ids.first(static_cast<std::size_t>(tokenise(manifest, settings, row, ids.first(room), scratch).tokens));
}

std::int64_t max_masked_tokens(const TextSettings& settings, const Manifest& manifest, std::int64_t samples,
                               std::int64_t longest) noexcept {
  if (!settings.masks_tokens) return 0;
  // A block of a corpus may lie within a text.
  const std::int64_t special = settings.corpus != nullptr ? 0 : special_tokens(settings, manifest);
  return selection_bound(samples, longest, longest - special, settings.masking);
}

Status write_text(Slot* slot, int text, const TextSample& sample, const Manifest& manifest,
                  const TextSettings& settings, TextScratch& scratch) noexcept {
  const TextSlot& arrays = slot->texts[text];
  const std::int64_t first_row = slot->batch.counts[arrays.token_stream];
  // Room for one token more than planned, so that none is cut away unseen.
  const std::int64_t room = std::min(settings.shape.max_length, settings.longest + (settings.pads ? 0 : 1));
  const Span<std::int32_t> ids(arrays.token_ids + first_row, static_cast<std::size_t>(room));
  const Encoded encoded = tokenise(manifest, settings, sample.text_row, ids, scratch);
  if (encoded.tokens > settings.longest) return Status{StatusCode::kLongText, {sample.text_row, settings.longest}};
  const Appended to{slot, text, first_row, ids.first(static_cast<std::size_t>(encoded.tokens))};
  const std::int64_t masked_before = slot->batch.counts[arrays.masked_stream];
  if (settings.masks_tokens) mask_text(to, sample, settings, scratch.labels.first(to.ids.size()));
  if (arrays.read_rows != nullptr) list_read_rows(to, sample, masked_before);
  if (arrays.position_ids != nullptr)
    write_positions(arrays.position_ids + first_row, to.ids, settings.shape.positions);
  if (arrays.token_types != nullptr)
    write_types(arrays.token_types + first_row, encoded, settings.tokenizer->second_type());
  if (arrays.decoder_ids != nullptr) write_decoder_ids(arrays.decoder_ids + first_row, to.ids, settings.shape.start_id);
  if (settings.reads_words) {
    label_words(to, sample, manifest, settings, scratch.labels.first(to.ids.size()));
  } else if (arrays.labelled_rows != nullptr) {
    label_text(to);
  }
  if (arrays.row_keys != nullptr) write_keys(to, sample);
  const std::int64_t tokens = slot->batch.counts[arrays.token_stream] += encoded.tokens;
  if (arrays.offsets != nullptr) arrays.offsets[sample.text + 1] = static_cast<std::int32_t>(tokens);
  return ok_status();
}

}  // namespace bascule
