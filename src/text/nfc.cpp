// SPDX-License-Identifier: Apache-2.0
#include "src/text/nfc.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "src/base/utf8.h"
#include "src/text/unicode_tables.h"

namespace bascule {
namespace {

// A decomposed character: its combining class, then its place, so that marks sort stably, then the code point.
constexpr int kPlaceShift = 21, kClassShift = 56;
constexpr std::uint64_t kCodePointMask = (std::uint64_t{1} << kPlaceShift) - 1;

std::uint32_t code_point_of(std::uint64_t character) noexcept {
  return static_cast<std::uint32_t>(character & kCodePointMask);
}
std::uint32_t class_of(std::uint64_t character) noexcept {
  return static_cast<std::uint32_t>(character >> kClassShift);
}

std::size_t put(std::uint32_t code_point, std::uint64_t* out, std::size_t count) noexcept {
  out[count] =
      std::uint64_t{combining_class(code_point)} << kClassShift | std::uint64_t{count} << kPlaceShift | code_point;
  return count + 1;
}

// Marks between two starters, in order of their classes.
void order_marks(std::uint64_t* characters, std::size_t count) noexcept {
  for (std::size_t begin = 0; begin < count;) {
    std::size_t end = begin + 1;
    if (class_of(characters[begin]) != 0) {
      while (end < count && class_of(characters[end]) != 0) ++end;
      if (!std::is_sorted(characters + begin, characters + end)) std::sort(characters + begin, characters + end);
    }
    begin = end;
  }
}

}  // namespace

std::size_t nfc(std::string_view text, std::uint64_t* out) noexcept {
  std::size_t count = 0;
  for (std::size_t place = 0; place < text.size();) {
    const Utf8Character character = utf8_character(text, place);
    std::uint32_t parts[4];
    for (int part = 0, of = decomposed(character.code_point, parts); part < of; ++part)
      count = put(parts[part], out, count);
    place += character.bytes;
  }
  order_marks(out, count);
  // A character composes with the last starter, unless one of the same or a higher class stands between.
  std::size_t kept = 0, starter = count;
  std::uint32_t last_class = 0;  // of the character kept last
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t code_point = code_point_of(out[i]), own_class = class_of(out[i]);
    const bool is_free = starter < kept && (starter + 1 == kept || last_class < own_class);
    const std::uint32_t whole = is_free ? composed(static_cast<std::uint32_t>(out[starter]), code_point) : 0;
    if (whole != 0) {
      out[starter] = whole;
      continue;
    }
    if (own_class == 0) starter = kept;
    last_class = own_class;
    out[kept++] = code_point;
  }
  return kept;
}

namespace {

using Characters = std::vector<std::uint64_t>;

// A name that is not UTF-8 has none.
Characters composed(const std::string& name) {
  if (first_invalid_utf8(name) < name.size()) return {};
  Characters characters(nfc_code_points(name.size()));
  characters.resize(nfc(name, characters.data()));
  return characters;
}

// The entry of the folder whose name is `name` in another form; "": none.
std::string entry_like(const std::filesystem::path& folder, const std::string& name) {
  const Characters wanted = composed(name);
  std::error_code failure;
  std::filesystem::directory_iterator entries(folder.empty() ? "." : folder, failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
    std::string found = entries->path().filename().string();
    if (!wanted.empty() && composed(found) == wanted) return found;
  }
  return "";
}

}  // namespace

std::string note_on_other_form(const std::string& path) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(path.begin(), path.end(), is_ascii)) return "";
  std::error_code failure;
  std::filesystem::path found;
  bool differs = false;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    std::filesystem::path next = found / part;
    if (!std::filesystem::exists(next, failure)) {
      const std::string other = entry_like(found, part.string());
      if (other.empty()) return "";
      next = found / other;
      differs = true;
    }
    found = next;
  }
  return differs ? ", but the same name exists in another Unicode form" : "";
}

}  // namespace bascule
