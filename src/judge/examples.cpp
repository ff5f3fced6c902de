// SPDX-License-Identifier: Apache-2.0
#include "src/judge/examples.h"

#include <algorithm>
#include <string>
#include <utility>

namespace bascule {

std::vector<std::int64_t> evenly_spaced(const std::vector<std::int64_t>& all, std::int64_t count) {
  const std::int64_t size = static_cast<std::int64_t>(all.size()), shown = std::min(count, size);
  std::vector<std::int64_t> some;
  for (std::int64_t i = 0; i < shown; ++i) some.push_back(all[static_cast<std::size_t>(i * size / shown)]);
  return some;
}

std::size_t PictureShelf::add(std::int64_t row) {
  const std::int64_t id = manifest_.image_id(row);
  const auto [place, is_new] = index_.emplace(id, report_->pictures.size());
  if (!is_new) return place->second;
  std::vector<std::uint8_t> file(folder_.largest_file_bytes() + 1);
  std::size_t bytes = 0;
  if (folder_.read(row, Span<std::uint8_t>(file), &bytes) != 0) bytes = 0;
  ReportPicture picture;
  picture.name = std::string(manifest_.row(row).image_path);
  picture.caption = std::string(manifest_.row(row).text);
  picture.file.assign(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(bytes));
  report_->pictures.push_back(std::move(picture));
  return place->second;
}

}  // namespace bascule
