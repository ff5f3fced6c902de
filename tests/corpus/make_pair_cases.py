#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes pair_cases.txt: pairs of small corpora as create_pretraining_data.py of google-research/bert makes them, with the random
numbers that src/corpus/corpus.h names. It works on lists of tokens, one at a time, and shares no code with the program.

  tests/corpus/make_pair_cases.py > tests/corpus/pair_cases.txt

A case is a line `case SEED MAX_TOKENS PASSES SHORT_PROBABILITY`, a line `document LENGTH...` for each document with the tokens of its
sentences, and a line `pair LABEL FIRST LAST FIRST LAST` for each pair: the first and the last token of both texts. Tokens are numbered
from 4 on through the whole corpus.
"""
import random

MASK32 = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10 of Salmon, Moraes, Dror, Shaw, 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & MASK32, (p >> 32) ^ c[3] ^ k[1], p & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def key_for(seed, use):
    words = philox([int.from_bytes(use, "big"), 0x62617363, 0x756C6521, 0], [seed & MASK32, seed >> 32])
    return words[:2]


class Draws:
    def __init__(self, seed, document, number):
        self.key, self.at, self.place = key_for(seed, b"pair"), 0, (document & MASK32, document >> 32, number)

    def word(self):
        word = philox([self.at, *self.place], self.key)[0]
        self.at += 1
        return word

    def integer(self, least, most):
        return least + (self.word() * (most - least + 1) >> 32)

    def unit(self):
        return self.word() / 2**32


def instances(documents, number, draws, most, short):
    document, pairs = documents[number], []
    target = most
    if draws.unit() < short:
        target = draws.integer(2, most)
    chunk, length, i = [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            end = draws.integer(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = [token for sentence in chunk[:end] for token in sentence]
            b = []
            is_random = len(chunk) == 1 or draws.unit() < 0.5
            if is_random:
                for _ in range(10):
                    other = draws.integer(0, len(documents) - 1)
                    if other != number:
                        break
                for sentence in documents[other][draws.integer(0, len(documents[other]) - 1):]:
                    b.extend(sentence)
                    if len(b) >= target - len(a):
                        break
                i -= len(chunk) - end
            else:
                b = [token for sentence in chunk[end:] for token in sentence]
            pairs.append((a, b, int(is_random)))
            chunk, length = [], 0
        i += 1
    return pairs


def shorten(a, b, most, seed, row):
    key, draw = key_for(seed, b"shor"), 0
    while len(a) + len(b) > most:
        longer = a if len(a) > len(b) else b
        word = philox([draw // 4, row & MASK32, row >> 32, 0], key)[draw % 4]
        longer.pop(0 if word / 2**32 < 0.5 else -1)
        draw += 1


def write_case(seed, most, passes, short, lengths):
    documents, token = [], 4
    for document in lengths:
        documents.append([])
        for length in document:
            documents[-1].append(list(range(token, token + length)))
            token += length
    print("case", seed, most, passes, short)
    for document in lengths:
        print("document", *document)
    row = 0
    for number in range(len(documents)):
        for one in range(passes):
            for a, b, label in instances(documents, number, Draws(seed, number, one), most, short):
                shorten(a, b, most, seed, row)
                assert a == list(range(a[0], a[-1] + 1)) and b == list(range(b[0], b[-1] + 1))
                print("pair", label, a[0], a[-1], b[0], b[-1])
                row += 1


def main():
    draw = random.Random(7)
    write_case(42, 2, 3, 0.5, [[1], [1, 1]])
    write_case(0, 13, 2, 0.0, [[40], [3, 2, 9]])
    for seed, most, passes, short in ((1, 9, 1, 0.1), (2**63 + 5, 20, 3, 0.1), (3, 29, 2, 0.5), (4, 61, 5, 1.0), (5, 125, 2, 0.0)):
        write_case(seed, most, passes, short, [[draw.randint(1, 16) for _ in range(draw.randint(1, 9))] for _ in range(draw.randint(2, 6))])


if __name__ == "__main__":
    main()
