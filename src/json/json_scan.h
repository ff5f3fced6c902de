// SPDX-License-Identifier: Apache-2.0
// JSON read after the seal: a document is checked as a whole, then looked into where it stands. noexcept, allocates
// nothing.
//
//   const JsonProblem problem = check_json(text);
//   if (problem.what != nullptr) ...;
//   const JsonView document(text);
//   const JsonView inputs = document.member("inputs");
//   for (JsonView one = inputs.first(); one.is_there(); one = one.next()) ...;
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/span.h"

namespace bascule {

inline constexpr int kMostScannedDepth = 32;
inline constexpr std::size_t kMostScannedMembers = 64;  // of an object: each is compared with all before it

struct JsonProblem {
  const char* what = nullptr;  // null: there is none
  std::size_t byte = 0;        // where
};

// Strict, as parse_json() is: UTF-8, no key twice, one value and white space. Nesting and members are limited as above;
// a number may be too large for a double.
JsonProblem check_json(std::string_view text) noexcept;

enum class JsonKind : std::uint8_t { kNone, kObject, kArray, kString, kNumber, kTrue, kFalse, kNull };

// A value of a document that check_json() found no problem in, which outlives this.
class JsonView {
 public:
  JsonView() noexcept = default;  // no value
  explicit JsonView(std::string_view document) noexcept;

  JsonKind kind() const noexcept;
  bool is_there() const noexcept { return kind() != JsonKind::kNone; }
  bool is(JsonKind kind) const noexcept { return this->kind() == kind; }
  // Of an object; no value where it has no such member, or is no object.
  JsonView member(std::string_view name) const noexcept;
  // The items of an array, or the members' values of an object, in turn: no value behind the last.
  JsonView first() const noexcept;
  JsonView next() const noexcept;
  std::size_t count() const noexcept;

  // A string without its escapes: a part of the document where it has none, else written into `room`, which has as many
  // bytes as the string in the document.
  std::string_view string(Span<char> room) const noexcept;
  // As it stands in the document, without the quotes.
  std::string_view raw_string() const noexcept;
  // Whether a string's text is this one.
  bool equals(std::string_view text) const noexcept;
  // Nothing where it is no number, is written with a fraction or an exponent, or is out of range.
  std::optional<std::int64_t> integer() const noexcept;
  std::optional<double> number() const noexcept;
  // The name of the member whose value this is, as it stands in the document: only of a value of first() and next().
  std::string_view raw_key() const noexcept { return key_; }

 private:
  JsonView(std::string_view rest, std::string_view key) noexcept : rest_(rest), key_(key) {}
  static JsonView at(std::string_view rest, bool has_key) noexcept;

  std::string_view rest_;  // the document from this value on
  std::string_view key_;   // of the member
  bool is_member_ = false;
};

}  // namespace bascule
