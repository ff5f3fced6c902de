// SPDX-License-Identifier: Apache-2.0
#include "src/loader/text_lengths.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "src/base/error.h"

namespace bascule {
namespace {

// Raised when the tokenizer gives other tokens for the same files.
constexpr std::uint64_t kFormat = 1;

struct Lengths {
  std::int64_t longest = 0;
  std::int64_t greatest_id = 0;
};

// The kept answer: key, longest, greatest id, and the XXH3 of these.
using Record = std::array<std::uint64_t, 4>;

std::uint64_t digest_of(const Record& record) { return XXH3_64bits(record.data(), 3 * sizeof(record[0])); }

std::uint64_t key_of(const Manifest& manifest, const TextSettings& settings) {
  const std::array<std::uint64_t, 5> parts = {kFormat, manifest.texts_digest(),
                                              static_cast<std::uint64_t>(manifest.rows()), settings.tokenizer->digest(),
                                              static_cast<std::uint64_t>(settings.shape.max_length)};
  return XXH3_64bits_withSeed(parts.data(), sizeof(parts), static_cast<std::uint64_t>(settings.of_row));
}

std::string record_path(const IndexCache& cache, std::uint64_t key) {
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx.lengths", static_cast<unsigned long long>(key));
  return cache.folder + name;
}

std::optional<Lengths> read_record(const std::string& path, std::uint64_t key, const TextSettings& settings) {
  Record record = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(static_cast<char*>(static_cast<void*>(record.data())), sizeof record)) return std::nullopt;
  const bool is_sound = record[0] == key && record[3] == digest_of(record) && record[1] >= 1 &&
                        record[1] <= static_cast<std::uint64_t>(settings.shape.max_length) && record[2] <= INT32_MAX;
  if (!is_sound) return std::nullopt;
  return Lengths{static_cast<std::int64_t>(record[1]), static_cast<std::int64_t>(record[2])};
}

// In one write: half a record is no record, and two processes write the same. A record that cannot be written is made
// again by the next run.
void write_record(const IndexCache& cache, const std::string& path, std::uint64_t key, const Lengths& lengths) {
  Record record = {key, static_cast<std::uint64_t>(lengths.longest), static_cast<std::uint64_t>(lengths.greatest_id),
                   0};
  record[3] = digest_of(record);
  std::error_code ignored;
  std::filesystem::create_directories(cache.folder, ignored);
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(static_cast<const void*>(record.data())), sizeof record);
}

Lengths measure(const Manifest& manifest, const TextSettings& settings) {
  std::vector<std::byte> scratch(settings.tokenizer->scratch_bytes(manifest.longest_text_bytes()));
  const std::int64_t special = special_tokens(settings, manifest);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(settings.shape.max_length));
  Lengths lengths;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    Encoded encoded;
    const Status status =
        settings.tokenizer->encode_into(texts_of(manifest.row(row), settings.of_row), ids, &encoded, scratch);
    if (!status.ok()) {
      // Readers take UTF-8 alone, and the scratch is made for the longest text.
      throw Error{ErrorKind::kInternal, manifest.where(row), "the text cannot be tokenised"};
    }
    if (settings.of_row != RowTexts::kAll && encoded.tokens <= special) {
      throw Error{ErrorKind::kData, manifest.where(row), "the text of column \"" + settings.column + "\" is empty",
                  "write a text, or remove the row"};
    }
    const std::int32_t greatest = *std::max_element(ids.begin(), ids.begin() + encoded.tokens);
    if (greatest >= settings.shape.vocabulary_size) {
      throw Error{ErrorKind::kData, manifest.where(row),
                  "the tokenizer gives token " + std::to_string(greatest) + ", the model's vocabulary has " +
                      std::to_string(settings.shape.vocabulary_size),
                  "use the tokenizer that belongs to the model"};
    }
    lengths.longest = std::max(lengths.longest, encoded.tokens);
    lengths.greatest_id = std::max<std::int64_t>(lengths.greatest_id, greatest);
  }
  return lengths;
}

// The lengths that another run has cached, if they hold for this model: if the model lacks a token, tokenising the
// texts again names the row.
std::optional<Lengths> kept_lengths(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache) {
  if (cache.folder.empty() || manifest.rows() < cache.smallest_rows) return std::nullopt;
  const std::uint64_t key = key_of(manifest, settings);
  const std::optional<Lengths> kept = read_record(record_path(cache, key), key, settings);
  return kept && kept->greatest_id < settings.shape.vocabulary_size ? kept : std::nullopt;
}

}  // namespace

bool has_longest_text(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache) {
  return kept_lengths(manifest, settings, cache).has_value();
}

std::int64_t longest_text(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache) {
  const std::optional<Lengths> kept = kept_lengths(manifest, settings, cache);
  if (kept) return kept->longest;
  if (!manifest.is_whole()) throw damaged_index(manifest);
  const Lengths lengths = measure(manifest, settings);
  if (!cache.folder.empty() && manifest.rows() >= cache.smallest_rows) {
    const std::uint64_t key = key_of(manifest, settings);
    write_record(cache, record_path(cache, key), key, lengths);
  }
  return lengths.longest;
}

}  // namespace bascule
