#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/grapheme_classes.cpp: which code points continue a grapheme cluster and which stand alone.

usage: tools/make_grapheme_classes.py > src/text/grapheme_classes.cpp

Needs regex 2025.11.3 from PyPI, whose tables are those of Unicode 17 as in tokenizers 0.23.
"""
import regex

CLASSES = (("kContinues", r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]"), ("kAlone", r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]"))


def runs_of(pattern):
    matches = regex.compile(pattern).match
    runs = []
    for code_point in range(0x110000):
        if 0xD800 <= code_point < 0xE000 or not matches(chr(code_point)):
            continue
        if runs and runs[-1][1] == code_point - 1:
            runs[-1][1] = code_point
        else:
            runs.append([code_point, code_point])
    return runs


def main():
    runs = sorted([*run, name] for name, pattern in CLASSES for run in runs_of(pattern))
    cells = [f"{{0x{first:x}, 0x{last:x}, {name}}}," for first, last, name in runs]
    rows = "\n".join("    " + " ".join(cells[i : i + 4]) for i in range(0, len(cells), 4))
    print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by tools/make_grapheme_classes.py; do not edit.
#include "src/text/unicode_tables.h"

#include <algorithm>
#include <iterator>

namespace bascule {{
namespace {{

constexpr GraphemeClass kContinues = GraphemeClass::kContinues, kAlone = GraphemeClass::kAlone;

struct Run {{
  std::uint32_t first, last;
  GraphemeClass kind;
}};

// clang-format off
constexpr Run kRuns[] = {{
{rows}
}};
// clang-format on

}}  // namespace

GraphemeClass grapheme_class(std::uint32_t code_point) noexcept {{
  const Run* const run = std::lower_bound(std::begin(kRuns), std::end(kRuns), code_point,
                                          [](const Run& one, std::uint32_t c) {{ return one.last < c; }});
  return run != std::end(kRuns) && run->first <= code_point ? run->kind : GraphemeClass::kOther;
}}

}}  // namespace bascule""")


if __name__ == "__main__":
    main()
