// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/finding.h"

#include <cstdio>

#include "src/base/messages.h"
#include "src/logs/readable.h"

namespace bascule {

std::string count_text(std::int64_t count) { return readable_count(count); }

std::string counted(std::int64_t count, const std::string& noun) {
  return count_text(count) + " " + noun_for(count, noun);
}

std::string share_text(std::int64_t part, std::int64_t all) {
  if (all == 0 || part == 0) return "0 %";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(all);
  char text[32];
  std::snprintf(text, sizeof text, percent < 10.0 ? "%.2g %%" : "%.1f %%", percent);
  return part == all ? "100 %" : text;
}

const char* level_name(Level level) {
  constexpr const char* kNames[] = {"fails", "warning", "note"};
  return kNames[static_cast<int>(level)];
}

}  // namespace bascule
