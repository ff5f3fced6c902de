// SPDX-License-Identifier: Apache-2.0
#include "src/index/manifest_part.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/base/digest.h"
#include "src/index/picture_folder.h"

namespace bascule {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::uint64_t text_digest(std::string_view text) { return digest_of(text.data(), text.size()); }

}  // namespace

bool is_held_out(std::uint64_t digest, double share) {
  // Above 2^64 - 2^10 the quotient rounds to 1, which no share reaches.
  return std::ldexp(static_cast<double>(digest), -64) < share;
}

std::vector<bool> held_out_rows(const Manifest& manifest, double share, const IndexCache& cache) {
  std::vector<std::uint64_t> pictures;
  if (manifest.has_pictures()) pictures = picture_digests(manifest, cache);
  std::vector<bool> held_out;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const std::uint64_t digest = manifest.has_pictures() ? pictures[static_cast<std::size_t>(manifest.image_id(row))]
                                                         : text_digest(manifest.row(row).text);
    held_out.push_back(is_held_out(digest, share));
  }
  return held_out;
}

// Copies rows of the tables, and the pictures in order of first use.
class ManifestPart {
 public:
  explicit ManifestPart(const Manifest& whole)
      : whole_(whole), from_(whole.tables_), part_(empty_like(whole)), numbers_(whole.figures_.pictures, kNone) {
    to_.class_names.assign(from_.class_names.begin(), from_.class_names.end());
  }

  Manifest copy(const std::vector<std::int64_t>& rows) {
    BASCULE_CHECK(!rows.empty() && whole_.taken_out_.empty() && whole_.empty_texts_.empty());
    Digest digest;
    digest.add_number(whole_.digest());
    for (const std::int64_t row : rows) {
      digest.add_number(static_cast<std::uint64_t>(row));
      add(row);
    }
    for (const std::uint64_t end : from_.file_end)
      to_.file_end.push_back(static_cast<std::uint64_t>(
          std::lower_bound(rows.begin(), rows.end(), static_cast<std::int64_t>(end)) - rows.begin()));
    return finish(digest.value());
  }

 private:
  static Manifest empty_like(const Manifest& whole) {
    Manifest part;
    part.store_ = std::make_unique<ManifestStore>();
    part.files_ = whole.files_;
    part.unread_ = whole.unread_;
    return part;
  }

  void add(std::int64_t row) {
    const auto place = static_cast<std::size_t>(row);
    const ManifestRow one = whole_.row(row);
    for (std::size_t i = 0; i < whole_.texts_of_a_row(); ++i) add_text(whole_.text(row, i));
    const std::size_t label_bytes = from_.labels.size() / whole_.figures_.rows;
    for (std::size_t i = 0; i < label_bytes; ++i) to_.labels.push_back(from_.labels[label_bytes * place + i]);
    if (whole_.has_tags()) {
      const std::size_t tags = whole_.count_labels(place), end = from_.tag_end[place];
      for (std::size_t i = end - tags; i < end; ++i) to_.tags.push_back(from_.tags[i]);
      to_.tag_end.push_back(to_.tags.size());
    }
    if (!from_.line.empty()) to_.line.push_back(from_.line[place]);
    if (!whole_.has_pictures()) return;
    std::uint32_t& number = numbers_[static_cast<std::size_t>(one.image_id)];
    if (number == kNone) {
      number = static_cast<std::uint32_t>(part_.figures_.pictures);
      add_picture(one);
    }
    if (!from_.image_of_row.empty()) to_.image_of_row.push_back(number);
  }

  void add_text(std::string_view text) {
    to_.texts.insert(to_.texts.end(), text.begin(), text.end());
    to_.text_end.push_back(to_.texts.size());
    part_.figures_.longest_text_bytes = std::max<std::uint64_t>(part_.figures_.longest_text_bytes, text.size());
  }

  void add_picture(const ManifestRow& row) {
    to_.names.insert(to_.names.end(), row.image_path.begin(), row.image_path.end());
    to_.names.push_back('\0');
    to_.name_end.push_back(to_.names.size());
    const auto picture = static_cast<std::size_t>(row.image_id);
    if (!from_.places.empty()) to_.places.push_back(from_.places[picture]);
    if (!from_.picture_bytes.empty()) to_.picture_bytes.push_back(from_.picture_bytes[picture]);
    if (std::binary_search(whole_.missing_.begin(), whole_.missing_.end(), row.image_id))
      part_.missing_.push_back(static_cast<std::int64_t>(part_.figures_.pictures));
    const auto bytes = static_cast<std::uint64_t>(whole_.picture_bytes(row.image_id));
    part_.figures_.largest_picture_bytes = std::max(part_.figures_.largest_picture_bytes, bytes);
    ++part_.figures_.pictures;
  }

  Manifest finish(std::uint64_t digest) {
    part_.figures_.rows = to_.text_end.size() / whole_.texts_of_a_row();
    part_.tables_ = to_.tables();
    part_.find_class_names();
    part_.figures_.digest = digest;
    part_.figures_.texts_digest =
        XXH3_64bits_withSeed(to_.texts.data(), to_.texts.size(),
                             XXH3_64bits(to_.text_end.data(), to_.text_end.size() * sizeof(std::uint64_t)));
    part_.figures_.data_digest = part_.digest_of_sizes();
    return std::move(part_);
  }

  const Manifest& whole_;
  const ManifestTables& from_;
  Manifest part_;
  ManifestStore& to_ = *part_.store_;
  std::vector<std::uint32_t> numbers_;  // of the part, by number in the whole
};

Manifest part_of(const Manifest& whole, const std::vector<std::int64_t>& rows) {
  return ManifestPart(whole).copy(rows);
}

}  // namespace bascule
