// SPDX-License-Identifier: Apache-2.0
// Examples for report.html: which rows are shown, and their pictures. Finish phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "src/answer/report.h"
#include "src/index/manifest.h"
#include "src/index/picture_folder.h"

namespace bascule {

// `count` of all, evenly spaced; all, if there are fewer.
std::vector<std::int64_t> evenly_spaced(const std::vector<std::int64_t>& all, std::int64_t count);

// Puts pictures into the report, each once.
class PictureShelf {
 public:
  PictureShelf(Report* report, const Manifest& manifest) : report_(report), manifest_(manifest), folder_(manifest) {}
  // The place of the row's picture in Report::pictures. Its file is empty where it cannot be read any more.
  std::size_t add(std::int64_t row);

 private:
  Report* report_;
  const Manifest& manifest_;
  PictureFolder folder_;
  std::map<std::int64_t, std::size_t> index_;
};

}  // namespace bascule
