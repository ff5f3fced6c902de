// SPDX-License-Identifier: Apache-2.0
// What `bascule doctor` found: one line each, with examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

enum class Level {
  kFails,    // training would end with an error
  kWarning,  // it would run, and the result would be worse or mean less than it seems
  kNote      // worth knowing
};
// "fails", "warning", "note".
const char* level_name(Level level);

// The most examples of a finding, but for a list of all rows.
inline constexpr std::size_t kMostExamples = 6;

struct Example {
  std::string text;                   // for people, one line: where it is and what it says
  std::vector<std::string> pictures;  // as read_picture_file() (src/pictures) takes them
};

struct Finding {
  Level level = Level::kNote;
  std::string check;       // "damaged_pictures": stable, for programs
  std::string what;        // for people, without a full stop
  std::string what_to_do;  // may be empty
  std::int64_t count = 0;  // of what `what` speaks about
  std::vector<Example> examples = {};
};

}  // namespace bascule
