// SPDX-License-Identifier: Apache-2.0
// report.html of a run that draws: figures, where the time of a call goes, and small copies of the first pictures,
// which lie beside the page. Finish phase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/logs/readable.h"

namespace bascule {

struct PageOperation {
  std::string kind;
  double seconds = 0.0;  // of all calls
  double flops = 0.0;
  double limit_seconds = 0.0;  // what they take at the limits of the machine; 0: not measured
};

struct PagePicture {
  std::string file, prompt, negative;   // negative: the prompt of what it shall not show; may be empty
  std::string facts;                    // "seed 42, noise 0, 3.1 s"
  std::vector<std::uint8_t> thumbnail;  // a small square PNG of the whole; empty: the prompt alone is shown
};

struct DrawPage {
  std::string title;
  std::vector<NamedText> figures;
  std::vector<PageOperation> operations;  // of the UNet's calls, the longest first
  std::vector<PagePicture> pictures;      // the first ones
  std::size_t all_pictures = 0;
  std::int64_t width = 1, height = 1;  // of each: its proportions on the page
  std::vector<NamedText> settings;
};

std::string draw_html(const DrawPage& page);

}  // namespace bascule
