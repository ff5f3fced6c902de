// SPDX-License-Identifier: Apache-2.0
// A quick way through JSON-lines: reads an object whose keys and strings have no escapes and whose other values are
// integers, true, false or null, without copying or allocating. That is nearly every row of a manifest; what is not so,
// or is no JSON, is left to parse_json().
//
//   PlainObject row;
//   if (!row.read(line)) return slow_way(parse_json(line, ...));
//   const PlainMember* caption = row.find("caption");
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bascule {

enum class PlainKind { kString, kInteger, kTrue, kFalse, kNull };

struct PlainMember {
  std::string_view key;
  PlainKind kind = PlainKind::kNull;
  std::string_view text;  // of a string: a part of what was read
  std::int64_t integer = 0;
};

class PlainObject {
 public:
  // False: `text` is another kind of object, or none; then parse_json() knows. True only for what parse_json() takes
  // too, given that it is UTF-8, which is not looked at here. `text` must outlive what find() gives.
  bool read(std::string_view text) noexcept;
  // Null if there is no such member.
  const PlainMember* find(std::string_view key) const noexcept;

 private:
  static constexpr std::size_t kMostMembers = 24;
  std::array<PlainMember, kMostMembers> members_;
  std::size_t count_ = 0;
};

}  // namespace bascule
