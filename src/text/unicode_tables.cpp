// SPDX-License-Identifier: Apache-2.0
#include "src/text/unicode_tables.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <vector>

#include "src/base/paths.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

struct CodePointProperties {
  std::uint8_t character, is_word, grapheme, word_piece, is_mark, combining_class;
};

#include "src/text/unicode_tables.inc"

constexpr std::uint32_t kCodePoints = 0x110000, kBlock = 256;

// Entries in ascending order of their code points, and how many of them begin before each block of code points.
template <typename Entry, std::size_t count>
struct Ascending {
  std::array<Entry, count> entries{};
  std::array<std::uint16_t, kCodePoints / kBlock + 1> begun{};

  constexpr void set_begun() {
    std::uint16_t entry = 0;
    for (std::uint32_t block = 0; block < begun.size(); ++block) {
      while (entry < count && entries[entry].code_point < block * kBlock) ++entry;
      begun[block] = entry;
    }
  }

  // The last one at or before the code point. Null: none is.
  const Entry* last_before(std::uint32_t code_point) const noexcept {
    if (code_point >= kCodePoints) return nullptr;
    const std::uint32_t block = code_point / kBlock;
    const Entry* const next =
        std::upper_bound(entries.data() + begun[block], entries.data() + begun[block + 1], code_point,
                         [](std::uint32_t value, const Entry& entry) { return value < entry.code_point; });
    return next == entries.data() ? nullptr : next - 1;
  }
};

constexpr std::uint32_t number(std::int32_t difference) { return static_cast<std::uint32_t>(difference); }

struct PropertyRun {
  std::uint32_t code_point;
  std::uint8_t kind;
};

constexpr auto property_runs() {
  Ascending<PropertyRun, std::size(kPropertyNumbers) / 2> table;
  std::uint32_t code_point = 0;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    table.entries[i] = {code_point, static_cast<std::uint8_t>(kPropertyNumbers[2 * i])};
    code_point += number(kPropertyNumbers[2 * i + 1]);
  }
  table.set_begun();
  return table;
}
constexpr auto kPropertyRuns = property_runs();

// Most texts are of code points that have at most two bytes: each has its kind at once.
constexpr auto short_kinds() {
  std::array<std::uint8_t, 0x800> kinds{};
  std::size_t run = 0;
  for (std::uint32_t code_point = 0; code_point < kinds.size(); ++code_point) {
    if (kPropertyRuns.entries[run + 1].code_point == code_point) ++run;
    kinds[code_point] = kPropertyRuns.entries[run].kind;
  }
  return kinds;
}
constexpr auto kShortKinds = short_kinds();

const CodePointProperties& properties_of(std::uint32_t code_point) noexcept {
  if (code_point < kShortKinds.size()) return kProperties[kShortKinds[code_point]];
  const PropertyRun* const run = kPropertyRuns.last_before(code_point);
  return kProperties[run == nullptr ? 0 : run->kind];
}

struct Decomposition {
  std::uint32_t code_point, first, second;
};

constexpr auto decompositions() {
  Ascending<Decomposition, std::size(kStepNumbers) / 3> table;
  Decomposition step{0, 0, 0};
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    step.code_point += number(kStepNumbers[3 * i]);
    step.first += number(kStepNumbers[3 * i + 1]);
    step.second += number(kStepNumbers[3 * i + 2]);
    table.entries[i] = step;
  }
  table.set_begun();
  return table;
}
constexpr auto kSteps = decompositions();

// Decompositions by their parts, in the first free slot from that of a hash on; a slot holds a place in kSteps plus 1.
constexpr std::size_t kSlots = 2048;
constexpr std::size_t slot_of(std::uint32_t first, std::uint32_t second) { return (first * 31 + second) % kSlots; }

constexpr auto compositions() {
  std::array<std::uint16_t, kSlots> slots{};
  std::uint32_t excluded = number(kExclusions[0]);
  std::size_t exclusion = 0;
  for (std::size_t i = 0; i < kSteps.entries.size(); ++i) {
    const Decomposition& step = kSteps.entries[i];
    if (step.code_point == excluded) {
      if (++exclusion < std::size(kExclusions)) excluded += number(kExclusions[exclusion]);
    } else if (step.second != 0) {
      std::size_t slot = slot_of(step.first, step.second);
      while (slots[slot] != 0) slot = (slot + 1) % kSlots;
      slots[slot] = static_cast<std::uint16_t>(i + 1);
    }
  }
  return slots;
}
constexpr auto kCompositions = compositions();

struct LowerRun {
  std::uint32_t code_point, last, step, distance;
};

constexpr auto lower_runs() {
  Ascending<LowerRun, std::size(kLowerNumbers) / 4> table;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    first += number(kLowerNumbers[4 * i]);
    const std::uint32_t more = number(kLowerNumbers[4 * i + 1]), step = number(kLowerNumbers[4 * i + 2]);
    table.entries[i] = {first, first + more * step, step, number(kLowerNumbers[4 * i + 3])};
  }
  table.set_begun();
  return table;
}
constexpr auto kLowerRuns = lower_runs();

constexpr std::uint32_t kHangul = 0xac00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11a7;
constexpr std::uint32_t kLeadings = 19, kVowels = 21, kTrailings = 28, kSyllables = kLeadings * kVowels * kTrailings;

}  // namespace

CharacterClass character_class(std::uint32_t code_point) noexcept {
  return static_cast<CharacterClass>(properties_of(code_point).character);
}

bool is_word_character(std::uint32_t code_point) noexcept { return properties_of(code_point).is_word != 0; }

GraphemeClass grapheme_class(std::uint32_t code_point) noexcept {
  return static_cast<GraphemeClass>(properties_of(code_point).grapheme);
}

WordPieceClass word_piece_class(std::uint32_t code_point) noexcept {
  return static_cast<WordPieceClass>(properties_of(code_point).word_piece);
}

bool is_mark(std::uint32_t code_point) noexcept { return properties_of(code_point).is_mark != 0; }

std::uint32_t combining_class(std::uint32_t code_point) noexcept { return properties_of(code_point).combining_class; }

int decomposed(std::uint32_t code_point, std::uint32_t* out) noexcept {
  if (code_point - kHangul < kSyllables) {
    const std::uint32_t syllable = code_point - kHangul, trailing = syllable % kTrailings;
    out[0] = kLeading + syllable / (kVowels * kTrailings);
    out[1] = kVowel + syllable / kTrailings % kVowels;
    out[2] = kTrailing + trailing;
    return trailing == 0 ? 2 : 3;
  }
  std::uint32_t after[3];  // the parts that follow, the last one first
  int count = 0;
  for (const Decomposition* step = kSteps.last_before(code_point); step != nullptr && step->code_point == code_point;
       step = kSteps.last_before(code_point)) {
    if (step->second != 0) after[count++] = step->second;
    code_point = step->first;
  }
  out[0] = code_point;
  for (int i = 1; i <= count; ++i) out[i] = after[count - i];
  return count + 1;
}

std::uint32_t composed(std::uint32_t first, std::uint32_t second) noexcept {
  if (first - kLeading < kLeadings && second - kVowel < kVowels)
    return kHangul + ((first - kLeading) * kVowels + second - kVowel) * kTrailings;
  const bool has_no_trailing = first - kHangul < kSyllables && (first - kHangul) % kTrailings == 0;
  if (has_no_trailing && second > kTrailing && second - kTrailing < kTrailings) return first + second - kTrailing;
  for (std::size_t slot = slot_of(first, second); kCompositions[slot] != 0; slot = (slot + 1) % kSlots) {
    const Decomposition& step = kSteps.entries[kCompositions[slot] - 1u];
    if (step.first == first && step.second == second) return step.code_point;
  }
  return 0;
}

CodePointPair lower_case(std::uint32_t code_point) noexcept {
  if (code_point == 0x130) return {'i', 0x307};  // the only one of two
  const LowerRun* const run = kLowerRuns.last_before(code_point);
  if (run == nullptr || code_point > run->last || (code_point - run->code_point) % run->step != 0)
    return {code_point, 0};
  return {code_point + run->distance, 0};
}

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
  for (const std::string& found : names_in(folder.empty() ? "." : folder.string())) {
    if (!wanted.empty() && composed(found) == wanted) return found;
  }
  return "";
}

}  // namespace

std::string note_on_other_form(const std::string& path) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(path.begin(), path.end(), is_ascii)) return "";
  std::filesystem::path found;
  bool differs = false;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    std::filesystem::path next = found / part;
    if (!is_there(next.string())) {
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
