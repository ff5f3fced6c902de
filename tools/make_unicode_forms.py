#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_forms.cpp from tests/data/tokenizer/unicode_forms.json: what the tokenizers library's NFC and Lowercase make of
each code point. --ask writes that JSON file by asking the library; its Unicode data are older than today's for NFC.

usage: tools/make_unicode_forms.py tests/data/tokenizer/unicode_forms.json > src/text/unicode_forms.cpp
       tools/make_unicode_forms.py --ask > tests/data/tokenizer/unicode_forms.json

--ask needs Python with the package tokenizers.
"""
import json
import random
import sys
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
SURROGATES = range(0xD800, 0xE000)
LOWEST, HIGHEST = "\u0334", "\u0345"  # of the combining classes 1 and 240
SHIFTED, SEVERAL = 0, 1


def combining_classes(nfd, marks):
    """[(first, last, class)]. Two marks change places where the class of the first is the greater one."""
    samples = {}  # a mark of each class that the library knows; the classes themselves never change
    for code_point in marks:
        samples.setdefault(unicodedata.combining(chr(code_point)), chr(code_point))
    ranges = []
    for code_point in marks:
        mark = chr(code_point)
        fitting = [number for number, other in samples.items() if nfd(other + mark) == other + mark and nfd(mark + other) == mark + other]
        assert len(fitting) == 1 and fitting[0] > 0, hex(code_point)
        if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == fitting[0]:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point, fitting[0]])
    return ranges


def samples(nfc, decomposed, marks):
    """[[text, its NFC]]: characters that compose or fall apart, and marks in any order."""
    draw = random.Random(1)
    characters = [chr(code_point) for code_point in [*decomposed, *HANGUL, *range(0x1100, 0x1200)]] + [part for text in decomposed.values() for part in text]
    texts = ["".join(draw.choice(characters) if draw.random() < 0.5 else chr(draw.choice(marks)) for _ in range(draw.randrange(1, 9))) for _ in range(500)]
    return [[text, nfc(text)] for text in texts]


def ask():
    import tokenizers
    from tokenizers import normalizers

    nfd, nfc, lower = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str, normalizers.Lowercase().normalize_str
    decomposed, lowered, marks = {}, {}, []
    for code_point in range(0x110000):
        if code_point in SURROGATES or code_point in HANGUL:
            continue
        text = chr(code_point)
        if nfd(text) != text:
            decomposed[code_point] = nfd(text)
        elif text == HIGHEST or nfd(text + LOWEST) != text + LOWEST or nfd(HIGHEST + text) != HIGHEST + text:
            marks.append(code_point)
        if lower(text) != text:
            lowered[code_point] = lower(text)
    composed = [code_point for code_point, text in decomposed.items() if nfc(text) == chr(code_point)]
    rows = {
        "what": "by code point, what the tokenizers library makes of it: decomposed in full (NFD, without Hangul), and those that NFC composes again; "
                "combining classes as ranges; lower case; strings and their NFC",
        "made_by": f"tools/make_unicode_forms.py --ask, tokenizers {tokenizers.__version__}",
        "decomposed": {f"{code_point:x}": text for code_point, text in decomposed.items()},
        "composed": [f"{code_point:x}" for code_point in composed],
        "combining_classes": combining_classes(nfd, marks),
        "lowered": {f"{code_point:x}": text for code_point, text in lowered.items()},
        "nfc": samples(nfc, decomposed, marks),
    }
    print("{\n" + ",\n".join(json.dumps({key: value})[1:-1] for key, value in rows.items()) + "\n}")


def steps_of(decomposed, composed):
    """code point -> (first, second): one step of the decomposition; second is 0 where there is one code point."""
    whole = {text: code_point for code_point, text in decomposed.items()}
    whole.update((decomposed[code_point], code_point) for code_point in composed)  # of several, the one that NFC makes
    steps = {}
    for code_point, text in decomposed.items():
        begin = text[:-1]
        first = ord(text) if len(text) == 1 else ord(begin) if len(begin) == 1 else whole[begin]
        steps[code_point] = (first, ord(text[-1]) if len(text) > 1 else 0)
    return steps


def runs_of(lowered):
    """Runs of code points that all move by as much; those that become two stand alone."""
    runs = []
    for code_point, text in lowered.items():
        kind, target = (SHIFTED, ord(text)) if len(text) == 1 else (SEVERAL, ord(text[0]) | ord(text[1]) << 10)
        assert len(text) < 3 and target < 1 << 21
        if runs and kind == runs[-1][3] == SHIFTED:
            first, last, step, _, to = runs[-1]
            gap = code_point - last
            if target - code_point == to - first and (gap == step or (first == last and gap in (1, 2))):
                runs[-1] = [first, code_point, gap, kind, to]
                continue
        runs.append([code_point, code_point, 1, kind, target])
    return [first | last - first << 21 | step - 1 << 34 | kind << 35 | target << 36 for first, last, step, kind, target in runs]


def rows(values, per_line, form=lambda value: f"0x{value:x}"):
    cells = [form(value) for value in values]
    return "\n".join("    " + " ".join(cell + "," for cell in cells[i : i + per_line]) for i in range(0, len(cells), per_line))


def main():
    if sys.argv[1] == "--ask":
        return ask()
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    decomposed, lowered = ({int(key, 16): text for key, text in sorted(document[name].items(), key=lambda item: int(item[0], 16))} for name in ("decomposed", "lowered"))
    composed = {int(key, 16) for key in document["composed"]}
    steps = steps_of(decomposed, composed)
    places = {code_point: place for place, code_point in enumerate(steps)}
    by_parts = sorted((step, code_point) for code_point, step in steps.items() if code_point in composed)
    print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by tools/make_unicode_forms.py; do not edit.
#include "src/text/unicode_tables.h"

#include <algorithm>
#include <iterator>

namespace bascule {{
namespace {{

// clang-format off
// Ranges of code points, ascending: the first, the last << 21, the combining class << 42.
constexpr std::uint64_t kClasses[] = {{
{rows([first | last << 21 | number << 42 for first, last, number in document["combining_classes"]], 6)}
}};

// Code points, ascending, and what they decompose into in one step: the code point << 42, the first part << 21, the
// second part or 0.
constexpr std::uint64_t kSteps[] = {{
{rows([code_point << 42 | first << 21 | second for code_point, (first, second) in steps.items()], 6)}
}};

// Those that NFC composes again, as places in kSteps, ascending by their parts.
constexpr std::uint16_t kComposed[] = {{
{rows([places[code_point] for _, code_point in by_parts], 20, str)}
}};

// Runs of code points that lower case changes, ascending: the first, the length less 1 << 21, the step less 1 << 34,
// the kind << 35, and what the first one becomes << 36: a code point, or two as the first | the second << 10.
enum : std::uint64_t {{ kShifted = {SHIFTED} }};  // and two
constexpr std::uint64_t kRuns[] = {{
{rows(runs_of(lowered), 6)}
}};
// clang-format on

constexpr std::uint64_t kCodePointMask = (std::uint64_t{{1}} << 21) - 1;

constexpr std::uint32_t first_of(std::uint64_t packed) {{ return static_cast<std::uint32_t>(packed & kCodePointMask); }}

constexpr std::uint64_t parts_of(std::uint64_t step) {{ return step & ((std::uint64_t{{1}} << 42) - 1); }}

// The last of an ascending list that begins at or before the code point; null: none does.
template <std::size_t count>
const std::uint64_t* last_before(const std::uint64_t (&list)[count], std::uint32_t code_point) noexcept {{
  const std::uint64_t* const next =
      std::upper_bound(std::begin(list), std::end(list), code_point,
                       [](std::uint32_t value, std::uint64_t packed) {{ return value < first_of(packed); }});
  return next == std::begin(list) ? nullptr : next - 1;
}}

}}  // namespace

std::uint32_t combining_class(std::uint32_t code_point) noexcept {{
  const std::uint64_t* const range = last_before(kClasses, code_point);
  if (range == nullptr || code_point > first_of(*range >> 21)) return 0;
  return static_cast<std::uint32_t>(*range >> 42);
}}

CodePointPair decomposition_step(std::uint32_t code_point) noexcept {{
  const std::uint64_t* const found =
      std::lower_bound(std::begin(kSteps), std::end(kSteps), code_point,
                       [](std::uint64_t step, std::uint32_t value) {{ return step >> 42 < value; }});
  if (found == std::end(kSteps) || *found >> 42 != code_point) return {{code_point, 0}};
  return {{first_of(*found >> 21), first_of(*found)}};
}}

std::uint32_t composed_code_point(std::uint32_t first, std::uint32_t second) noexcept {{
  const std::uint64_t parts = std::uint64_t{{first}} << 21 | second;
  const std::uint16_t* const found =
      std::lower_bound(std::begin(kComposed), std::end(kComposed), parts,
                       [](std::uint16_t place, std::uint64_t value) {{ return parts_of(kSteps[place]) < value; }});
  if (found == std::end(kComposed) || parts_of(kSteps[*found]) != parts) return 0;
  return static_cast<std::uint32_t>(kSteps[*found] >> 42);
}}

CodePointPair lower_case(std::uint32_t code_point) noexcept {{
  const std::uint64_t* const run = last_before(kRuns, code_point);
  if (run == nullptr) return {{code_point, 0}};
  const std::uint32_t place = code_point - first_of(*run), step = (*run >> 34 & 1) + 1;
  if (place > (*run >> 21 & 0x1fff) || place % step != 0) return {{code_point, 0}};
  const std::uint32_t target = static_cast<std::uint32_t>(*run >> 36);
  if ((*run >> 35 & 1) == kShifted) return {{target + place, 0}};
  return {{target & 0x3ff, target >> 10}};
}}

}}  // namespace bascule""")


if __name__ == "__main__":
    main()
