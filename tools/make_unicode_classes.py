#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_classes.cpp from tests/data/tokenizer/unicode_classes.json (inclusive code point ranges of letters
L, numbers N and white space S as the tokenizers library's byte-level pattern sees them), and src/text/word_characters.cpp from
tests/data/tokenizer/word_characters.json, which --ask makes (needs the package tokenizers).

usage: tools/make_unicode_classes.py tests/data/tokenizer/unicode_classes.json > src/text/unicode_classes.cpp
       tools/make_unicode_classes.py tests/data/tokenizer/word_characters.json > src/text/word_characters.cpp
       tools/make_unicode_classes.py --ask > tests/data/tokenizer/word_characters.json
"""
import json
import sys

BLOCK = 128  # code points a block; 2 bits each, so 4 words of 64 bits
CLASS = {"L": 1, "N": 2, "S": 3}


def rows(values, form, per_line):
    cells = [form(v) for v in values]
    return "\n".join("    " + " ".join(c + "," for c in cells[i : i + per_line]) for i in range(0, len(cells), per_line))


def ask():
    """The ranges of characters beside which an added token with single_word is not found."""
    from tokenizers import AddedToken, Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.add_tokens([AddedToken("Q", single_word=True, normalized=False)])
    found = []
    for code_point in (*range(0xD800), *range(0xE000, 0x110000)):
        character = chr(code_point)
        if 1 in tokenizer.encode(character + "Q").ids and character != "Q":
            continue
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    cells = ",\n".join(", ".join(map(str, found[i : i + 10])) for i in range(0, len(found), 10))
    what = "inclusive code point ranges of the characters that keep the tokenizers library from finding an added token with single_word beside them"
    print(f'{{\n"what": "{what}",\n"W": [\n{cells}\n]\n}}')


def write_words(ranges):
    cells = [f"{{0x{first:x}, 0x{last:x}}}" for first, last in ranges]
    print(f"""// SPDX-License-Identifier: Apache-2.0
// Made by tools/make_unicode_classes.py; do not edit.
#include <algorithm>
#include <iterator>

#include "src/text/unicode_tables.h"

namespace bascule {{
namespace {{

// clang-format off
constexpr struct {{
  std::uint32_t first, last;
}} kWordCharacters[] = {{
{rows(cells, str, 8)}
}};
// clang-format on

}}  // namespace

bool is_word_character(std::uint32_t code_point) noexcept {{
  const auto* const found = std::lower_bound(std::begin(kWordCharacters), std::end(kWordCharacters), code_point,
                                             [](const auto& range, std::uint32_t c) {{ return range.last < c; }});
  return found != std::end(kWordCharacters) && found->first <= code_point;
}}

}}  // namespace bascule""")


def main():
    if sys.argv[1] == "--ask":
        return ask()
    with open(sys.argv[1], encoding="utf-8") as f:
        ranges = json.load(f)
    if "W" in ranges:
        return write_words(ranges["W"])
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
#include "src/text/unicode_tables.h"

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
    return None


if __name__ == "__main__":
    main()
