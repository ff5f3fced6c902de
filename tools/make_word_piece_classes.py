#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/word_piece_classes.cpp from tests/data/tokenizer/wordpiece/unicode_classes.json: what the tokenizers library's
BertNormalizer and BertPreTokenizer make of each code point.

usage: tools/make_word_piece_classes.py tests/data/tokenizer/wordpiece/unicode_classes.json > src/text/word_piece_classes.cpp
"""
import json
import sys

CLASSES = ("removed", "space", "chinese", "punctuation")
SHIFTED, DROPPED, SEVERAL = 0, 1, 2


def packed(first, last, step, kind, target):
    """One run: see Run in the file that is written."""
    assert last - first < 1 << 13 and step in (1, 2)
    return first | (last - first) << 21 | (step - 1) << 34 | kind << 35 | target << 37


def runs_of(lowered, pool):
    """Runs of code points that all move by as much, or are all dropped."""
    runs = []
    for code_point, text in sorted((int(key, 16), value) for key, value in lowered.items()):
        kind = {0: DROPPED, 1: SHIFTED}.get(len(text), SEVERAL)
        target = ord(text) if kind == SHIFTED else len(pool) if kind == SEVERAL else 0
        if kind == SEVERAL:
            pool.extend([*map(ord, text), 0])
        if runs and kind != SEVERAL and runs[-1][3] == kind:
            first, last, step, _, to = runs[-1]
            gap = code_point - last
            if (kind == DROPPED or target - code_point == to - first) and (gap == step or (first == last and gap in (1, 2))) and (kind == SHIFTED or gap == 1):
                runs[-1] = [first, code_point, gap, kind, to]
                continue
        runs.append([code_point, code_point, 1, kind, target])
    return [packed(*run) for run in runs]


def rows(values, per_line):
    cells = [f"0x{value:x}" for value in values]
    return "\n".join("    " + " ".join(cell + "," for cell in cells[i : i + per_line]) for i in range(0, len(cells), per_line))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    ranges = sorted((first, last, number + 1) for number, name in enumerate(CLASSES) for first, last in document[name])
    for (_, last, _), (first, _, _) in zip(ranges, ranges[1:]):
        assert last < first, "classes overlap"
    pool = []
    runs = runs_of(document["lowered"], pool)
    print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by tools/make_word_piece_classes.py; do not edit.
#include "src/text/unicode_tables.h"

#include <algorithm>
#include <iterator>

namespace bascule {{
namespace {{

// clang-format off
// Ranges of code points, ascending: the first, the last << 21, the class << 42.
constexpr std::uint64_t kRanges[] = {{
{rows([first | last << 21 | number << 42 for first, last, number in ranges], 7)}
}};

// Runs of code points, ascending: the first, the length less 1 << 21, the step less 1 << 34, the kind << 35, and where
// the first one goes << 37: a code point, or a place in kLists.
enum : std::uint64_t {{ kShifted = {SHIFTED}, kDropped = {DROPPED} }};  // and, in kLists, several
constexpr std::uint64_t kRuns[] = {{
{rows(runs, 7)}
}};

// Lists of code points that end with a zero.
constexpr std::uint32_t kLists[] = {{
{rows(pool, 14)}
}};
// clang-format on

constexpr std::uint64_t kCodePointMask = (std::uint64_t{{1}} << 21) - 1;

constexpr std::uint32_t first_of(std::uint64_t packed) {{ return static_cast<std::uint32_t>(packed & kCodePointMask); }}

// The last of an ascending list that begins at or before the code point; null: none does.
template <std::size_t count>
const std::uint64_t* last_before(const std::uint64_t (&list)[count], std::uint32_t code_point) noexcept {{
  const std::uint64_t* const next = std::upper_bound(
      std::begin(list), std::end(list), code_point,
      [](std::uint32_t value, std::uint64_t packed) {{ return value < first_of(packed); }});
  return next == std::begin(list) ? nullptr : next - 1;
}}

}}  // namespace

WordPieceClass word_piece_class(std::uint32_t code_point) noexcept {{
  const std::uint64_t* const range = last_before(kRanges, code_point);
  if (range == nullptr || code_point > first_of(*range >> 21)) return WordPieceClass::kOther;
  return static_cast<WordPieceClass>(*range >> 42);
}}

int lowered_code_points(std::uint32_t code_point, std::uint32_t* out) noexcept {{
  constexpr std::uint32_t kHangul = 0xac00, kHangulEnd = 0xd7a4, kTrailing = 28, kVowels = 21;
  if (code_point >= kHangul && code_point < kHangulEnd) {{
    const std::uint32_t syllable = code_point - kHangul, trailing = syllable % kTrailing;
    out[0] = 0x1100 + syllable / (kTrailing * kVowels);
    out[1] = 0x1161 + syllable / kTrailing % kVowels;
    out[2] = 0x11a7 + trailing;
    return trailing == 0 ? 2 : 3;
  }}
  out[0] = code_point;
  const std::uint64_t* const run = last_before(kRuns, code_point);
  if (run == nullptr) return 1;
  const std::uint32_t place = code_point - first_of(*run), step = (*run >> 34 & 1) + 1;
  if (place > (*run >> 21 & 0x1fff) || place % step != 0) return 1;
  const std::uint32_t target = static_cast<std::uint32_t>(*run >> 37);
  switch (*run >> 35 & 3) {{
    case kShifted: out[0] = target + place; return 1;
    case kDropped: return 0;
    default: break;
  }}
  int count = 0;
  for (const std::uint32_t* from = kLists + target; *from != 0; ++from) out[count++] = *from;
  return count;
}}

}}  // namespace bascule""")


if __name__ == "__main__":
    main()
