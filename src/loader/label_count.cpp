// SPDX-License-Identifier: Apache-2.0
#include "src/loader/label_count.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <xxhash.h>

#include "src/base/check.h"
#include "src/base/error.h"

namespace bascule {
namespace {

std::size_t id_bytes(std::int64_t longest) noexcept {
  return align_up(static_cast<std::size_t>(longest) * sizeof(std::int32_t), kCacheLine);
}

}  // namespace

std::size_t LabelCount::bytes(std::size_t worker_scratch, std::int64_t longest_text) noexcept {
  return id_bytes(longest_text) + worker_scratch;
}

LabelCount::LabelCount(Span<std::byte> memory, std::int64_t longest_text) noexcept
    : ids_(static_cast<std::int32_t*>(static_cast<void*>(memory.data())), static_cast<std::size_t>(longest_text)),
      scratch_(memory.subspan(id_bytes(longest_text), memory.size() - id_bytes(longest_text)), longest_text) {}

std::int64_t LabelCount::of(const Manifest& manifest, const SampleSettings& settings, const BatchOrder& order,
                            std::int64_t first, std::int64_t end) noexcept {
  const TextSettings& text = settings.texts[0].front();
  const std::vector<TextSettings>& second = settings.texts[1];
  BASCULE_CHECK(text.masks_tokens && !settings.exchanges_captions);
  BASCULE_CHECK(second.empty() || !second.front().masks_tokens);
  std::int64_t counted = 0;
  for (std::int64_t number = first; number < end; ++number) {
    const BatchPlace place = order.place(number);
    const EpochOrder rows = order.epoch_order(place.epoch);
    for (std::int64_t b = 0; b < place.count; ++b) {
      const std::int64_t row = order.row(rows, place.epoch, (place.first_position + b) % order.rows());
      const Span<std::int32_t> ids = tokens_of(manifest, text, row, ids_, scratch_);
      counted += mask_tokens(ids, scratch_.labels.first(ids.size()), text.masking, place.epoch, row);
    }
  }
  return counted;
}

namespace {

// Raised when the tokenizer gives other tokens for the same files, or a record has another form.
constexpr std::uint64_t kFormat = 2;

struct Measured {
  TextLengths lengths;
  std::int64_t greatest_id = 0;
};

// The kept answer: key, longest, cut, greatest id, and the XXH3 of these.
using Record = std::array<std::uint64_t, 5>;

std::uint64_t digest_of(const Record& record) { return XXH3_64bits(record.data(), 4 * sizeof(record[0])); }

std::uint64_t key_of(const Manifest& manifest, const TextSettings& settings) {
  const std::array<std::uint64_t, 6> parts = {kFormat,
                                              manifest.texts_digest(),
                                              static_cast<std::uint64_t>(manifest.rows()),
                                              settings.tokenizer->digest(),
                                              static_cast<std::uint64_t>(settings.shape.max_length),
                                              XXH3_64bits(settings.prefix.data(), settings.prefix.size())};
  const std::uint64_t kind = static_cast<std::uint64_t>(settings.of_row + 1) + (settings.reads_words ? 1 << 16 : 0);
  return XXH3_64bits_withSeed(parts.data(), sizeof(parts), kind);
}

std::string record_path(const IndexCache& cache, std::uint64_t key) {
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx.lengths", static_cast<unsigned long long>(key));
  return cache.folder + name;
}

std::optional<Measured> read_record(const std::string& path, std::uint64_t key, const TextSettings& settings) {
  Record record = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(static_cast<char*>(static_cast<void*>(record.data())), sizeof record)) return std::nullopt;
  const bool is_sound = record[0] == key && record[4] == digest_of(record) && record[1] >= 1 &&
                        record[1] <= static_cast<std::uint64_t>(settings.shape.max_length) && record[3] <= INT32_MAX;
  if (!is_sound) return std::nullopt;
  return Measured{{static_cast<std::int64_t>(record[1]), static_cast<std::int64_t>(record[2])},
                  static_cast<std::int64_t>(record[3])};
}

// In one write: half a record is no record, and two processes write the same. A record that cannot be written is made
// again by the next run.
void write_record(const IndexCache& cache, const std::string& path, std::uint64_t key, const Measured& measured) {
  Record record = {key, static_cast<std::uint64_t>(measured.lengths.longest),
                   static_cast<std::uint64_t>(measured.lengths.cut), static_cast<std::uint64_t>(measured.greatest_id),
                   0};
  record[4] = digest_of(record);
  std::error_code ignored;
  std::filesystem::create_directories(cache.folder, ignored);
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(static_cast<const void*>(record.data())), sizeof record);
}

// Cuts a text of one token more than it may have: its end stays.
void cut_one(Span<std::int32_t> ids, Span<const std::int32_t> after) {
  const std::size_t end = ids.size() - after.size();
  std::copy(after.begin(), after.end(), ids.data() + end - 1);
}

// Counts the words that are cut off. Throws Error for a row none of whose words has a token.
Status encode_words(const Manifest& manifest, const TextSettings& settings, std::int64_t row, Span<std::int32_t> ids,
                    Span<std::int32_t> words_of, Encoded* encoded, Measured* measured, Span<std::byte> scratch) {
  EncodedWords words;
  BASCULE_TRY(settings.tokenizer->encode_words_into(manifest.row(row).text, ids, words_of, true, &words, scratch));
  if (words.tokens == settings.tokenizer->special_tokens(false)) {
    throw Error{ErrorKind::kData, manifest.where(row), "no word of column \"" + settings.column + "\" has a token",
                "write a word that is not empty, or remove the row"};
  }
  encoded->tokens = words.tokens;
  measured->lengths.cut += words.cut;
  return ok_status();
}

Measured measure(const Manifest& manifest, const TextSettings& settings) {
  std::vector<std::byte> scratch(encode_scratch_bytes(settings, manifest.longest_text_bytes()));
  const std::int64_t most = settings.shape.max_length;
  std::vector<std::int32_t> words_of(settings.reads_words ? static_cast<std::size_t>(most) : 0);
  const bool counts_cut = settings.of_row != kAllTexts;
  // Where cut texts are counted, with room for a token by which they show.
  std::vector<std::int32_t> ids(static_cast<std::size_t>(most + (counts_cut ? 1 : 0)));
  Measured measured;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    if (manifest.has_empty_text(row)) continue;
    Encoded encoded;
    const Status status = settings.reads_words
                              ? encode_words(manifest, settings, row, ids, words_of, &encoded, &measured, scratch)
                              : encode_text(manifest, settings, row, ids, &encoded, scratch);
    if (!status.ok()) {
      // Readers take UTF-8 alone, and the scratch is made for the longest text.
      throw Error{ErrorKind::kInternal, manifest.where(row), "the text cannot be tokenised"};
    }
    if (encoded.tokens > most) {
      cut_one(ids, settings.tokenizer->after());
      encoded.tokens = most;
      ++measured.lengths.cut;
    }
    if (counts_cut && encoded.tokens == 0) {
      throw Error{ErrorKind::kData, manifest.where(row), "the text of column \"" + settings.column + "\" has no token",
                  "write a text, or remove the row"};
    }
    const std::int32_t greatest = *std::max_element(ids.begin(), ids.begin() + encoded.tokens);
    if (greatest >= settings.shape.vocabulary_size) {
      throw Error{ErrorKind::kData, manifest.where(row),
                  "the tokenizer gives token " + std::to_string(greatest) + ", the model's vocabulary has " +
                      std::to_string(settings.shape.vocabulary_size),
                  "use the tokenizer that belongs to the model"};
    }
    measured.lengths.longest = std::max(measured.lengths.longest, encoded.tokens);
    measured.greatest_id = std::max<std::int64_t>(measured.greatest_id, greatest);
  }
  return measured;
}

// The lengths that another run has cached, if they hold for this model: if the model lacks a token, tokenising the
// texts again names the row.
std::optional<Measured> kept_lengths(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache) {
  if (cache.folder.empty() || manifest.rows() < cache.smallest_rows) return std::nullopt;
  const std::uint64_t key = key_of(manifest, settings);
  const std::optional<Measured> kept = read_record(record_path(cache, key), key, settings);
  return kept && kept->greatest_id < settings.shape.vocabulary_size ? kept : std::nullopt;
}

}  // namespace

bool has_text_lengths(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache) {
  return kept_lengths(manifest, settings, cache).has_value();
}

TextLengths text_lengths(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache) {
  const std::optional<Measured> kept = kept_lengths(manifest, settings, cache);
  if (kept) return kept->lengths;
  if (!manifest.is_whole()) throw damaged_index(manifest);
  const Measured measured = measure(manifest, settings);
  if (!cache.folder.empty() && manifest.rows() >= cache.smallest_rows) {
    const std::uint64_t key = key_of(manifest, settings);
    write_record(cache, record_path(cache, key), key, measured);
  }
  return measured.lengths;
}

}  // namespace bascule
