#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/no_duplicates.json: batches of sentence-transformers' NoDuplicatesBatchSampler for random rows, in their order.

  tools/make_no_duplicates.py

Needs torch and sentence-transformers 6.2. A text is one character. The sampler's shuffle is replaced by the order of the rows, and its further passes,
which it makes with drop_last until it has given the announced number of batches, are left out.
"""
import json
import pathlib
import random

import torch
import sentence_transformers
import sentence_transformers.base.sampler as library

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "no_duplicates.json"
CASES = 60


class Rows:
    """What the sampler needs of a data set."""

    def __init__(self, rows):
        self.rows = rows
        self.column_names = [f"column{i}" for i in range(len(rows[0]))]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return dict(zip(self.column_names, self.rows[index]))


def main():
    library._MAX_RESAMPLE_PASSES = 0
    torch.randperm = lambda count, **_: torch.arange(count)
    draw, cases = random.Random(5), []
    for _ in range(CASES):
        rows, columns, words = draw.randint(1, 40), draw.randint(1, 4), draw.choice([3, 8, 20, 60, 400])
        texts = ["".join(chr(0x100 + draw.randrange(words)) for _ in range(columns)) for _ in range(rows)]
        batch, drop_last = draw.randint(1, 9), bool(draw.randrange(2))
        sampler = library.NoDuplicatesBatchSampler(Rows(texts), batch_size=batch, drop_last=drop_last, generator=torch.Generator(), seed=0)
        cases.append({"batch": batch, "drop_last": drop_last, "rows": texts, "batches": [[int(row) for row in one] for one in sampler]})
    FILE.write_text(json.dumps({"sentence_transformers": sentence_transformers.__version__, "cases": cases}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
