#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_tables.inc: the properties of each code point, decompositions and lower case, from the JSON files of
tests/data/tokenizer that say what the tokenizers library makes of each code point. --ask writes three of these by asking it.

usage: tools/make_unicode_tables.py > src/text/unicode_tables.inc
       tools/make_unicode_tables.py --ask FILE > tests/data/tokenizer/FILE

FILE: word_characters.json, unicode_forms.json (with the package tokenizers; its Unicode data are older than today's for NFC), or
grapheme_classes.json (with regex 2025.11.3, whose tables are those of Unicode 17 as in tokenizers 0.23).
"""
import json
import random
import sys
import unicodedata
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "tests/data/tokenizer"
CODE_POINTS = 0x110000
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic
SURROGATES = range(0xD800, 0xE000)
LOWEST, HIGHEST = "\u0334", "\u0345"  # of the combining classes 1 and 240
CHARACTERS = ("L", "N", "S")
WORD_PIECES = ("removed", "space", "chinese", "punctuation")
GRAPHEMES = ("continues", "alone")


def ranges_of(holds):
    """The inclusive ranges of the code points that `holds` is true of."""
    found = []
    for code_point in (*range(SURROGATES.start), *range(SURROGATES.stop, CODE_POINTS)):
        if not holds(chr(code_point)):
            continue
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    return found


def print_ranges(what, named):
    rows = {name: ",\n".join(", ".join(map(str, ranges[i : i + 10])) for i in range(0, len(ranges), 10)) for name, ranges in named.items()}
    print(f'{{\n"what": "{what}",\n' + ",\n".join(f'"{name}": [\n{cells}\n]' for name, cells in rows.items()) + "\n}")


def ask_for_words():
    from tokenizers import AddedToken, Tokenizer, models

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.add_tokens([AddedToken("Q", single_word=True, normalized=False)])
    ranges = ranges_of(lambda character: character == "Q" or 1 not in tokenizer.encode(character + "Q").ids)
    print_ranges("inclusive code point ranges of the characters that keep the tokenizers library from finding an added token with single_word beside them", {"W": ranges})


def ask_for_graphemes():
    import regex

    patterns = {"continues": r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]", "alone": r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]"}
    print_ranges("inclusive code point ranges, Unicode 17. continues: belongs to the grapheme cluster before it; alone: is a cluster by itself",
                 {name: ranges_of(regex.compile(pattern).match) for name, pattern in patterns.items()})


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


def ask_for_forms():
    import tokenizers
    from tokenizers import normalizers

    nfd, nfc, lower = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str, normalizers.Lowercase().normalize_str
    decomposed, lowered, marks = {}, {}, []
    for code_point in range(CODE_POINTS):
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
        "made_by": f"tools/make_unicode_tables.py --ask, tokenizers {tokenizers.__version__}",
        "decomposed": {f"{code_point:x}": text for code_point, text in decomposed.items()},
        "composed": [f"{code_point:x}" for code_point in composed],
        "combining_classes": combining_classes(nfd, marks),
        "lowered": {f"{code_point:x}": text for code_point, text in lowered.items()},
        "nfc": samples(nfc, decomposed, marks),
    }
    print("{\n" + ",\n".join(json.dumps({key: value})[1:-1] for key, value in rows.items()) + "\n}")


def read(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def by_code_point(texts):
    return dict(sorted((int(key, 16), text) for key, text in texts.items()))


def property_runs(forms, word_pieces):
    """[(kind, code points in a row)], and the kinds."""
    columns = [bytearray(CODE_POINTS) for _ in range(6)]
    values = [*((0, value + 1, read("unicode_classes.json")[name]) for value, name in enumerate(CHARACTERS)),
              (1, 1, read("word_characters.json")["W"]),
              *((2, value + 1, read("grapheme_classes.json")[name]) for value, name in enumerate(GRAPHEMES)),
              *((3, value + 1, word_pieces[name]) for value, name in enumerate(WORD_PIECES)),
              (4, 1, [(int(key, 16),) * 2 for key, text in word_pieces["lowered"].items() if not text])]
    values += ((5, value, [(first, last)]) for first, last, value in forms["combining_classes"])
    for column, value, ranges in values:
        for first, last in ranges:
            assert not any(columns[column][first : last + 1]), hex(first)
            columns[column][first : last + 1] = bytes([value]) * (last + 1 - first)
    kinds, runs = {(0,) * 6: 0}, []
    for properties in zip(*columns):
        kind = kinds.setdefault(properties, len(kinds))
        if runs and runs[-1][0] == kind:
            runs[-1][1] += 1
        else:
            runs.append([kind, 1])
    return runs, kinds


def steps_of(decomposed, composed):
    """[(code point, first part, second part or 0)]: one step of the decomposition of each."""
    whole = {text: code_point for code_point, text in decomposed.items()}
    whole.update((decomposed[code_point], code_point) for code_point in composed)  # of several, the one that NFC makes
    steps = []
    for code_point, text in decomposed.items():
        begin = text[:-1]
        first = ord(text) if len(text) == 1 else ord(begin) if len(begin) == 1 else whole[begin]
        steps.append((code_point, first, ord(text[-1]) if len(text) > 1 else 0))
    return steps


def lower_runs(lowered):
    """[(first code point, how many more, step, distance)] of those that move by as much; U+0130, which becomes two, is in the code."""
    assert [code_point for code_point, text in lowered.items() if len(text) > 1] == [0x130]
    runs = []
    for code_point, text in lowered.items():
        if len(text) > 1:
            continue
        distance = ord(text) - code_point
        if runs and distance == runs[-1][3]:
            first, more, step, _ = runs[-1]
            gap = code_point - first - more * step
            if gap == step or (more == 0 and gap in (1, 2)):
                runs[-1] = (first, more + 1, gap, distance)
                continue
        runs.append((code_point, 0, 1, distance))
    return runs


def print_table(comment, head, cells):
    print(f"\n// {comment}\n{head} = {{")
    row = ""
    for cell in cells:
        if len(row) + len(cell) > 136:
            print(f"    {row}")
            row = ""
        row += cell
    print(f"    {row}\n}};")


def main():
    if sys.argv[1:]:
        return {"word_characters.json": ask_for_words, "grapheme_classes.json": ask_for_graphemes, "unicode_forms.json": ask_for_forms}[sys.argv[2]]()
    forms = read("unicode_forms.json")
    composed = {int(key, 16) for key in forms["composed"]}
    runs, kinds = property_runs(forms, read("wordpiece/unicode_classes.json"))
    print("// SPDX-License-Identifier: Apache-2.0\n// Made by tools/make_unicode_tables.py; do not edit. Numbers are differences from those of the entry before.")
    print_table("The properties that code points have, the first those of none.", "constexpr CodePointProperties kProperties[]",
                ("{" + ",".join(map(str, kind)) + "}," for kind in kinds))
    print_table("All code points: a place in kProperties, which is no difference, and how many in a row are of it.", "constexpr std::int32_t kPropertyNumbers[]",
                (f"{kind},{count}," for kind, count in runs))
    before, cells = (0, 0, 0), []
    for step in steps_of(by_code_point(forms["decomposed"]), composed):
        cells.append(",".join(str(now - then) for now, then in zip(step, before)) + ",")
        before = step
    print_table("Code points and the two parts, of which the second may be 0, that each decomposes into in one step.", "constexpr std::int32_t kStepNumbers[]", cells)
    before, cells = 0, []
    for code_point, text in by_code_point(forms["decomposed"]).items():
        if len(text) > 1 and code_point not in composed:
            cells.append(f"{code_point - before},")
            before = code_point
    print_table("Code points of two parts that these are not composed to.", "constexpr std::int32_t kExclusions[]", cells)
    before, cells = 0, []
    for first, more, step, distance in lower_runs(by_code_point(forms["lowered"])):
        cells.append(f"{first - before},{more},{step},{distance},")
        before = first
    print_table("Code points that lower case changes: the first, and, no differences, how many more, their step, and how far they move.", "constexpr std::int32_t kLowerNumbers[]", cells)
    return None


if __name__ == "__main__":
    main()
