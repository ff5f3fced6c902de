// SPDX-License-Identifier: Apache-2.0
#include "src/index/row_digests.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "src/base/error.h"

namespace bascule {
namespace {

std::uint64_t hash_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  const std::uint64_t numbers[] = {a, b, c};
  return XXH3_64bits(numbers, sizeof numbers);
}

std::uint64_t term(std::int64_t row, std::int64_t content, std::int64_t bytes) noexcept {
  return hash_of(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(content),
                 static_cast<std::uint64_t>(bytes));
}

std::int64_t block_rows(std::int64_t rows) noexcept { return (rows + kMostRowBlocks - 1) / kMostRowBlocks; }

void add(std::vector<std::int64_t>* blocks, std::int64_t rows, std::int64_t row, std::uint64_t value) {
  std::int64_t& block = (*blocks)[static_cast<std::size_t>(row / block_rows(rows))];
  block = static_cast<std::int64_t>(static_cast<std::uint64_t>(block) + value);
}

std::vector<std::int64_t> empty_blocks(std::int64_t rows) {
  const std::int64_t each = block_rows(rows);
  return std::vector<std::int64_t>(static_cast<std::size_t>((rows + each - 1) / each), 0);
}

// The rows of then, one after another, each with its place in the manifest of now.
class RowsWalk {
 public:
  RowsWalk(const Manifest& manifest, const RowsOfCheckpoint& then, RowsComparison* result)
      : manifest_(manifest), then_(then), result_(result), blocks_(empty_blocks(then.count)) {
    const std::int64_t were_there = then.count - static_cast<std::int64_t>(then.taken_out.size());
    missing_ = were_there - manifest.rows();
    result_->taken_out = then.taken_out;
  }

  // Rows that are gone; below 0: there are more.
  std::int64_t missing() const { return missing_; }

  // False: the manifest ends before its rows should.
  bool run() {
    for (std::int64_t row = 0; row < then_.count; ++row) {
      if (std::binary_search(then_.taken_out.begin(), then_.taken_out.end(), row)) continue;
      const BadRow* const bad = next_bad(row);
      if (bad != nullptr) {
        take_bad(*bad);
      } else if (place_ < manifest_.rows()) {
        add(&blocks_, then_.count, row, term(row, row_content(manifest_, place_), bytes_at(place_)));
        ++place_;
      } else {
        return false;
      }
    }
    std::sort(result_->taken_out.begin(), result_->taken_out.end());
    return place_ == manifest_.rows();
  }

  const std::vector<std::int64_t>& blocks() const { return blocks_; }

 private:
  std::int64_t bytes_at(std::int64_t place) const { return manifest_.picture_bytes(manifest_.image_id(place)); }

  const BadRow* next_bad(std::int64_t row) {
    while (bad_ < then_.bad.size() && then_.bad[bad_].row < row) ++bad_;
    return bad_ < then_.bad.size() && then_.bad[bad_].row == row ? &then_.bad[bad_] : nullptr;
  }

  // A bad row counts as it was, whatever it is now.
  void take_bad(const BadRow& bad) {
    add(&blocks_, then_.count, bad.row, term(bad.row, bad.content, bad.bytes));
    const bool is_here = place_ < manifest_.rows() && row_content(manifest_, place_) == bad.content;
    if (!is_here && missing_ > 0) {
      --missing_;
      result_->taken_out.push_back(bad.row);
      result_->mended.push_back({bad.row, true, bad.bytes, 0});
      return;
    }
    if (place_ >= manifest_.rows()) return;  // run() says so
    if (!is_here || bytes_at(place_) != bad.bytes)
      result_->mended.push_back({bad.row, false, bad.bytes, bytes_at(place_)});
    ++place_;
  }

  const Manifest& manifest_;
  const RowsOfCheckpoint& then_;
  RowsComparison* result_;
  std::vector<std::int64_t> blocks_;
  std::int64_t missing_ = 0, place_ = 0;
  std::size_t bad_ = 0;
};

std::uint64_t hash_of_tags(const Manifest& manifest, std::int64_t row) noexcept {
  std::uint64_t hash = 0;
  std::string_view words = manifest.row(row).text;
  for (std::size_t word = 0; !words.empty(); ++word) {
    hash = hash_of(hash, static_cast<std::uint64_t>(manifest.tag(row, word)), word);
    take_word(&words);
  }
  return hash;
}

}  // namespace

std::int64_t row_content(const Manifest& manifest, std::int64_t row) noexcept {
  const ManifestRow one = manifest.row(row);
  const std::size_t slash = one.image_path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? one.image_path : one.image_path.substr(slash + 1);
  std::uint64_t texts = XXH3_64bits(one.text.data(), one.text.size());
  for (std::size_t i = 1; i < manifest.texts_of_a_row(); ++i) {
    const std::string_view text = manifest.text(row, i);
    texts = hash_of(texts, XXH3_64bits(text.data(), text.size()), i + 1);
  }
  std::uint64_t label = static_cast<std::uint64_t>(one.label);
  if (manifest.has_tags()) label = hash_of_tags(manifest, row);
  if (manifest.has_values()) label = XXH3_64bits(&one.value, sizeof one.value);
  return static_cast<std::int64_t>(hash_of(texts, XXH3_64bits(name.data(), name.size()), label));
}

std::vector<std::int64_t> row_blocks(const Manifest& manifest) {
  std::vector<std::int64_t> blocks = empty_blocks(manifest.rows());
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    if (manifest.is_taken_out(row)) continue;
    add(&blocks, manifest.rows(), row,
        term(row, row_content(manifest, row), manifest.picture_bytes(manifest.image_id(row))));
  }
  return blocks;
}

std::size_t find_bad_rows(const Manifest& manifest, Span<std::int64_t> bad, Span<BadRow> rows) noexcept {
  std::size_t count = 0;
  const auto take = [&](std::int64_t row) {
    if (count == rows.size() || manifest.is_taken_out(row)) return;
    rows[count++] = {row, row_content(manifest, row), manifest.picture_bytes(manifest.image_id(row))};
  };
  if (!manifest.has_pictures()) {
    for (const std::int64_t row : manifest.rows_with_empty_text()) take(row);
    return count;
  }
  // Every row has a picture of its own.
  if (manifest.pictures() == manifest.rows() && manifest.missing_pictures() == 0) {
    std::sort(bad.begin(), bad.end());
    for (std::size_t i = 0; i < bad.size(); ++i) {
      if (i == 0 || bad[i] != bad[i - 1]) take(bad[i]);
    }
    return count;
  }
  std::size_t pictures = 0;
  for (const std::int64_t row : bad) {
    if (!manifest.is_taken_out(row)) bad[pictures++] = manifest.image_id(row);
  }
  std::sort(bad.begin(), bad.begin() + pictures);
  if (pictures == 0 && manifest.missing_pictures() == 0) return 0;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const bool is_bad = std::binary_search(bad.begin(), bad.begin() + pictures, manifest.image_id(row));
    if (is_bad || manifest.is_missing(row)) take(row);
  }
  return count;
}

RowsComparison compare_rows(const Manifest& manifest, const RowsOfCheckpoint& then) {
  RowsComparison result;
  RowsWalk walk(manifest, then, &result);
  const std::int64_t were_there = then.count - static_cast<std::int64_t>(then.taken_out.size());
  const std::int64_t missing = walk.missing();
  if (missing < 0 || missing > static_cast<std::int64_t>(then.bad.size())) {
    result.problem = "it has " + count_of(manifest.rows(), "row") + " instead of " + std::to_string(were_there) +
                     (missing > 0 ? "; a row may be removed only if the run found its picture bad" : "");
    return result;
  }
  if (!walk.run() || static_cast<std::size_t>(then.count) == 0) {
    result.problem = "rows were removed whose pictures the run had not found bad";
    return result;
  }
  for (std::size_t block = 0; block < walk.blocks().size(); ++block) {
    if (block < then.blocks.size() && walk.blocks()[block] == then.blocks[block]) continue;
    const std::int64_t each = block_rows(then.count), first = static_cast<std::int64_t>(block) * each + 1;
    const std::int64_t last = std::min(then.count, first + each - 1);
    result.problem = (first == last ? "row " + std::to_string(first)
                                    : "one of rows " + std::to_string(first) + " to " + std::to_string(last)) +
                     " has a different text, label, picture name or picture size";
    return result;
  }
  return result;
}

}  // namespace bascule
