// SPDX-License-Identifier: Apache-2.0
// Any file is rows, or one Error: also where rows that are refused are left out, and where a share of the rows is held
// out. The first byte chooses the format and the columns.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/index/manifest.h"
#include "src/index/manifest_builder.h"
#include "src/index/open_manifest.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {
namespace {

enum Choice : unsigned { kLabels = 4, kTexts = 8, kWords = 16, kNames = 32, kValues = 64, kShare = 128 };

ManifestColumns columns_of(unsigned choice) {
  ManifestColumns columns;
  if ((choice & kLabels) != 0) columns.label = "label";
  if ((choice & (kTexts | kWords)) != 0) columns.image = "";
  columns.named_classes = (choice & kNames) != 0;
  if (columns.named_classes) columns.classes = kMostClasses;
  if ((choice & kValues) != 0) columns.values = LabelValues::kIfDecimal;
  if ((choice & kWords) != 0) {
    columns.label = "label";
    columns.values = LabelValues::kNone;
    columns.words = true;
  }
  return columns;
}

// Nothing: it is refused, with an Error of data at that place.
std::optional<Manifest> load(const std::string& file, const ManifestColumns& columns, std::string* where) {
  try {
    return Manifest::load(file, columns);
  } catch (const Error& refused) {
    fuzz::require(refused.kind() == ErrorKind::kData);
    *where = refused.where();
    return std::nullopt;
  }
}

void read_all(const Manifest& manifest) {
  fuzz::require(manifest.rows() > 0);
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    std::string_view text = manifest.row(row).text;
    fuzz::require(text.size() <= manifest.longest_text_bytes());
    fuzz::require(!manifest.has_pictures() || manifest.image_id(row) < manifest.pictures());
    if (!manifest.has_tags()) continue;
    for (std::size_t word = 0; !text.empty(); ++word) {
      take_word(&text);
      fuzz::require(manifest.tag(row, word) >= 0 && manifest.tag(row, word) <= manifest.largest_label());
    }
  }
}

void divide(const Manifest& manifest) {
  const std::vector<bool> held_out = held_out_rows(manifest, 0.3, {});
  std::vector<std::int64_t> parts[2];
  for (std::int64_t row = 0; row < manifest.rows(); ++row)
    parts[held_out[static_cast<std::size_t>(row)] ? 1 : 0].push_back(row);
  for (const std::vector<std::int64_t>& rows : parts) {
    if (rows.empty()) continue;
    const Manifest part = part_of(manifest, rows);
    read_all(part);
    fuzz::require(part.rows() == static_cast<std::int64_t>(rows.size()));
    fuzz::require(part.row(0).text == manifest.row(rows.front()).text);
  }
}

// The same rows as a run reads, or those that it would read if the others had not been written.
void leave_out(const std::string& file, ManifestColumns columns, const std::optional<Manifest>& whole,
               const std::string& where) {
  RefusedRows refused;
  columns.refused = &refused;
  std::string other;
  const std::optional<Manifest> rest = load(file, columns, &other);
  fuzz::require(whole.has_value() == (rest.has_value() && refused.count == 0));
  if (whole) fuzz::require(whole->digest() == rest->digest() && whole->texts_digest() == rest->texts_digest());
  const bool is_there = std::any_of(refused.errors.begin(), refused.errors.end(),
                                    [&](const Error& error) { return error.where() == where; });
  fuzz::require(refused.count == 0 || refused.count > static_cast<std::int64_t>(RefusedRows::kMostErrors) || is_there);
  if (rest) read_all(*rest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const char* const kSuffixes[] = {".jsonl", ".json", ".csv", ".tsv"};
  if (size == 0) return 0;
  const std::string file = fuzz::as_file(data + 1, size - 1, kSuffixes[data[0] & 3]);
  const ManifestColumns columns = columns_of(data[0]);
  std::string where;
  const std::optional<Manifest> manifest = load(file, columns, &where);
  if (manifest) read_all(*manifest);
  if (manifest && !manifest->has_pictures() && (data[0] & kShare) != 0) divide(*manifest);
  leave_out(file, columns, manifest, where);
  return 0;
}

}  // namespace bascule
