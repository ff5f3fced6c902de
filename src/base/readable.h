// SPDX-License-Identifier: Apache-2.0
// Numbers for people, and texts with a name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bascule {

// Numbers for people, written into fixed-size text values: no allocation, usable after the seal.
//   readable_bytes(1536) "1.50 KiB"; readable_seconds(3725) "1 h 02 min"; readable_count(1234567) "1,234,567";
//   readable_number(0.000012345) "1.234e-05"

// A short zero-terminated text. It becomes a string, which allocates, wherever one is wanted.
struct ShortText {
  char text[32] = {};
  const char* c_str() const noexcept { return text; }
  operator std::string() const { return text; }
};
inline std::string operator+(const std::string& a, const ShortText& b) { return a + b.text; }
inline std::string operator+(const ShortText& a, const std::string& b) { return a.text + b; }

ShortText readable_bytes(std::uint64_t bytes) noexcept;
ShortText readable_seconds(double seconds) noexcept;
ShortText readable_count(std::int64_t count) noexcept;
// About four digits: "0.4213", "12.34", "1,234.5", "1.234e-05", "n/a" for a number that is not finite.
ShortText readable_number(double value) noexcept;
// 0.4213 -> "42.1 %".
ShortText readable_percent(double fraction) noexcept;
// For a loader: "can deliver 912 samples/s"; for NaN "loading was not measured".
ShortText can_deliver(double samples_per_second) noexcept;
// The current time in UTC, in a format of strftime.
ShortText utc_now(const char* format) noexcept;

// A fact for people, {"compiler", "g++ 12.2"}; a key of the settings with its canonical value; or a file and its
// content.
struct NamedText {
  std::string name;
  std::string value;

  bool operator==(const NamedText& other) const { return name == other.name && value == other.value; }
};

// The value of the first one with that name; null: there is none.
const std::string* find_value(const std::vector<NamedText>& texts, std::string_view name);

}  // namespace bascule
