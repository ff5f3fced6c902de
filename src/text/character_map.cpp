// SPDX-License-Identifier: Apache-2.0
#include "src/text/character_map.h"

#include <algorithm>
#include <cstring>

#include "src/base/align.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/grapheme_classes.h"

namespace bascule {
namespace {

constexpr std::size_t kLongestCluster = 5;  // bytes, that is looked up whole

// The fields of a unit, as darts-clone packs them.
bool has_leaf(std::uint32_t unit) noexcept { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) noexcept { return unit & 0x7fffffffu; }
std::uint32_t label_of(std::uint32_t unit) noexcept { return unit & 0x800000ffu; }
std::size_t offset_of(std::uint32_t unit) noexcept {
  return static_cast<std::size_t>(unit >> 10) << ((unit & 512) >> 6);
}

[[noreturn]] void refuse_map(const std::string& where, const std::string& problem) {
  throw Error{ErrorKind::kData, where, "precompiled_charsmap " + problem, "download the tokenizer again"};
}

std::uint32_t word_at(const std::string& bytes, std::size_t place) noexcept {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i)
    word |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[place + i])) << 8 * i;
  return word;
}

// The end of the grapheme cluster that begins at `place`.
std::size_t cluster_end(std::string_view text, std::size_t place) noexcept {
  const Utf8Character first = utf8_character(text, place);
  std::size_t end = place + first.bytes;
  if (first.code_point == '\r' && end < text.size() && text[end] == '\n') return end + 1;
  if (end == text.size() || static_cast<unsigned char>(text[end]) < 0x80) return end;  // no ASCII continues a cluster
  if (grapheme_class(first.code_point) == GraphemeClass::kAlone) return end;
  while (end < text.size()) {
    const Utf8Character next = utf8_character(text, end);
    if (grapheme_class(next.code_point) != GraphemeClass::kContinues) break;
    end += next.bytes;
  }
  return end;
}

}  // namespace

CharacterMap::CharacterMap(const std::string& bytes, const std::string& where) {
  if (bytes.size() < 4) refuse_map(where, "is cut short");
  const std::size_t trie_bytes = word_at(bytes, 0);
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > bytes.size() - 4) refuse_map(where, "is cut short");
  for (std::size_t i = 0; i < trie_bytes / 4; ++i) units_.push_back(word_at(bytes, 4 + 4 * i));
  values_ = bytes.substr(4 + trie_bytes);
  if (values_.empty() || values_.back() != '\0') refuse_map(where, "is cut short");
  check(where);
}

// Visits every unit that a key leads to, the shortest keys first (keys share their ends): what apply() follows lies
// inside the units and gives UTF-8.
void CharacterMap::check(const std::string& where) {
  struct Visit {
    std::size_t unit, depth;
  };
  std::vector<Visit> visits = {{0, 0}};
  std::vector<bool> seen(units_.size(), false);
  for (std::size_t next = 0; next < visits.size(); ++next) {
    const auto [unit, depth] = visits[next];
    const std::size_t base = unit ^ offset_of(units_[unit]);
    for (std::size_t c = 1; c < 256; ++c) {
      const std::size_t child = base ^ c;
      if (child >= units_.size() || label_of(units_[child]) != c || seen[child]) continue;
      seen[child] = true;
      visits.push_back({child, depth + 1});
      if (!has_leaf(units_[child])) continue;
      const std::size_t leaf = child ^ offset_of(units_[child]);
      if (leaf >= units_.size() || value_of(units_[leaf]) >= values_.size())
        refuse_map(where, "has a value outside it");
      const std::string_view value = values_.data() + value_of(units_[leaf]);
      if (first_invalid_utf8(value) < value.size()) refuse_map(where, "has a value that is not UTF-8");
      growth_ = std::max(growth_, divide_up(value.size(), depth + 1));
    }
  }
  for (std::size_t c = 0; c < 128; ++c) {
    const char key = static_cast<char>(c);
    const std::size_t child = offset_of(units_[0]) ^ c;
    is_kept_[c] = c == 0 || child >= units_.size() || label_of(units_[child]) != c || find({&key, 1}) == nullptr;
  }
}

const char* CharacterMap::find(std::string_view key) const noexcept {
  std::size_t node = units_.empty() ? 0 : offset_of(units_[0]);
  for (const char character : key) {
    const std::size_t c = static_cast<unsigned char>(character);
    if (c == 0) return nullptr;
    node ^= c;
    if (node >= units_.size() || label_of(units_[node]) != c) return nullptr;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (has_leaf(unit)) return values_.data() + value_of(units_[node]);
  }
  return nullptr;
}

std::size_t CharacterMap::apply(std::string_view text, char* out) const noexcept {
  std::size_t written = 0;
  const auto put = [&](std::string_view what) {
    std::memcpy(out + written, what.data(), what.size());
    written += what.size();
  };
  if (units_.empty()) {
    put(text);
    return written;
  }
  const auto ascii = [&](std::size_t place) { return static_cast<unsigned char>(text[place]) < 0x80; };
  for (std::size_t place = 0; place < text.size();) {
    if (ascii(place) && is_kept_[static_cast<unsigned char>(text[place])] &&
        (place + 1 == text.size() || ascii(place + 1))) {  // most of English
      out[written++] = text[place++];
      continue;
    }
    const std::size_t end = cluster_end(text, place);
    if (end - place <= kLongestCluster) {
      if (const char* const value = find(text.substr(place, end - place))) {
        put(value);
        place = end;
        continue;
      }
    }
    while (place < end) {
      const std::size_t bytes = utf8_character(text, place).bytes;
      const char* const value = find(text.substr(place, bytes));
      put(value != nullptr ? std::string_view(value) : text.substr(place, bytes));
      place += bytes;
    }
  }
  return written;
}

}  // namespace bascule
