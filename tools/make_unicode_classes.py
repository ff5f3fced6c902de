#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_classes.cpp from tests/data/tokenizer/unicode_classes.json (inclusive code point ranges of letters
L, numbers N and white space S as the tokenizers library's byte-level pattern sees them).

usage: tools/make_unicode_classes.py tests/data/tokenizer/unicode_classes.json > src/text/unicode_classes.cpp
"""
import json
import sys

BLOCK = 128  # code points a block; 2 bits each, so 4 words of 64 bits
CLASS = {"L": 1, "N": 2, "S": 3}


def rows(values, form, per_line):
    cells = [form(v) for v in values]
    return "\n".join("    " + " ".join(c + "," for c in cells[i : i + per_line]) for i in range(0, len(cells), per_line))


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        ranges = json.load(f)
    last = max(r[1] for name in CLASS for r in ranges[name])
    blocks = last // BLOCK + 1
    class_of = bytearray(blocks * BLOCK)
    for name, value in CLASS.items():
        for first, end in ranges[name]:
            for code_point in range(first, end + 1):
                assert class_of[code_point] == 0, code_point
                class_of[code_point] = value
    distinct, index = {}, []
    for b in range(blocks):
        cells = class_of[b * BLOCK : (b + 1) * BLOCK]
        words = tuple(sum(cells[w * 32 + i] << (2 * i) for i in range(32)) for w in range(4))
        index.append(distinct.setdefault(words, len(distinct)))
    assert len(distinct) <= 256
    words = [w for block in distinct for w in block]
    print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by tools/make_unicode_classes.py; do not edit.
#include "src/text/unicode_classes.h"

namespace bascule {{
namespace {{

constexpr std::uint32_t kBlocks = {blocks};  // blocks of {BLOCK} code points; everything behind them is kOther

// clang-format off
// Which of the different blocks below a block of code points is.
constexpr std::uint8_t kBlockIndex[kBlocks] = {{
{rows(index, str, 28)}
}};

// Each block: {BLOCK} classes of 2 bits, the first in the lowest bits.
constexpr std::uint64_t kBlock[{len(distinct)} * 4] = {{
{rows(words, lambda w: f"0x{w:016x}", 4)}
}};
// clang-format on

}}  // namespace

CharacterClass character_class(std::uint32_t code_point) noexcept {{
  const std::uint32_t block = code_point / {BLOCK};
  if (block >= kBlocks) return CharacterClass::kOther;
  const std::uint32_t place = code_point % {BLOCK};
  const std::uint64_t word = kBlock[kBlockIndex[block] * 4u + place / 32];
  return static_cast<CharacterClass>((word >> (place % 32 * 2)) & 3);
}}

}}  // namespace bascule""")


if __name__ == "__main__":
    main()
