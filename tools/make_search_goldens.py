#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results of Transformers' generate() for a model whose logits are a hash: the truth of tests/generate/test_token_search.cpp.

  tools/make_search_goldens.py        writes tests/data/generate/searches.json; takes two minutes

A case is a set of options, a law of logits and some samples; its results are those of each sample alone in a batch. The model has no
weights: a token's logit is an integer, scaled by a power of two, that depends on the sample's seed and on all ids before (logits() below;
tests/generate/hashed_model.h has the same). Few levels, and rows whose logits are each other's rotations, make equal scores.

Every search runs twice: as it is, and with torch.topk replaced by a stable sort, which takes the first of equals, and log_softmax
computed in float64. A case whose two results differ has "first": true, and holds the second. So its result depends on the choice among
equal scores, or on the last bit of log p, and Transformers' own is chance; all other cases hold what Transformers gives as it is.
"""
import contextlib
import json
import pathlib
import random
import warnings
from unittest import mock

import numpy as np
import torch
import transformers
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests/data/generate/searches.json"
CASES, MOST_FIRST = 540, 90
WORD = 2 ** 64 - 1


def mix(word):
    """The finalizer of splitmix64."""
    word = (word + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def logits(law, ends, seed, ids):
    """Of the token that follows `ids`."""
    state = seed
    for token in ids:
        state = mix(state ^ (token + 1))
    vocabulary, levels = law["vocabulary"], law["levels"]
    if law["rotated"]:
        numbers = [(token + state) % vocabulary % levels for token in range(vocabulary)]
    else:
        numbers = [(mix((state + (token + 1) * 0xD1B54A32D192ED03) & WORD) >> 33) % levels for token in range(vocabulary)]
    return [(number + law["end_bias"] * (token in ends)) * 2.0 ** law["exponent"] for token, number in enumerate(numbers)]


class HashedModel(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig

    def __init__(self, law, ends):
        super().__init__(PretrainedConfig(vocab_size=law["vocabulary"]))
        self.law, self.ends = law, ends
        self.unused = torch.nn.Parameter(torch.zeros(1))  # says which device and type the model has

    def forward(self, input_ids, seeds, **_):
        rows = [logits(self.law, self.ends, seed, ids) for seed, ids in zip(seeds.tolist(), input_ids.tolist())]
        return CausalLMOutput(logits=torch.tensor(rows, dtype=torch.float32)[:, None, :])


def first_of_equals(values, k):
    ordered = torch.sort(values, dim=-1, descending=True, stable=True)
    return ordered[0][..., :k], ordered[1][..., :k]


def exact_log_softmax(values, dim):
    shifted = values - values.max(dim, keepdim=True)[0]
    return shifted - shifted.double().exp().sum(dim, keepdim=True).log().float()


def replaced(changes):
    stack = contextlib.ExitStack()
    if changes:
        stack.enter_context(mock.patch.object(torch, "topk", first_of_equals))
        stack.enter_context(mock.patch.object(torch.nn.functional, "log_softmax", exact_log_softmax))
    return stack


def search(case, seeds, changes):
    """Ids and score of each of the samples in one batch."""
    config = GenerationConfig(
        num_beams=case["beams"], max_length=case["max_length"], length_penalty=case["length_penalty"], early_stopping=case["early_stopping"],
        no_repeat_ngram_size=case["ngram"], eos_token_id=case["ends"], pad_token_id=0, use_cache=False, do_sample=False,
        return_dict_in_generate=True, output_scores=True,
        **({"min_new_tokens": case["min_length"] - 1} if case["min_length"] % 2 and case["min_length"] > 1 else {"min_length": case["min_length"]}))
    start = torch.full((len(seeds), 1), case["start"])
    with replaced(changes), torch.no_grad():
        out = HashedModel(case["law"], case["ends"]).generate(start, generation_config=config, seeds=torch.tensor(seeds))
    results = []
    for row in range(len(seeds)):
        ids = out.sequences[row, 1:].tolist()
        if case["beams"] > 1:
            results.append((ids[:int((out.beam_indices[row] >= 0).sum())], float(out.sequences_scores[row])))
        else:
            length = next((i + 1 for i, token in enumerate(ids) if token in case["ends"]), len(ids))
            results.append((ids[:length], 0.0))
    return results


def drawn_case(dice):
    # Fewer tokens than candidates: sequences with -1e9, and such as go on behind an end token.
    is_corner = dice.random() < 0.35
    vocabulary = dice.choice([3, 4, 5, 6, 7] if is_corner else [7, 8, 9, 12, 16, 25, 40])
    ends = [dice.randrange(vocabulary) for _ in range(dice.choice([1, 1, 1, 2] if is_corner else [1, 1, 1, 2, 3]))]
    levels, exponent = dice.choice([(2, 0), (3, -1), (8, -1), (40, -2), (2 ** 18, -15), (2 ** 18, -15), (2 ** 20, -17)])
    law = {"vocabulary": vocabulary, "rotated": dice.random() < 0.25, "levels": levels, "exponent": exponent,
           "end_bias": round(levels * dice.choice([-1, -0.2, 0, 0, 0.3, 0.6, 1]))}
    return {"law": law, "beams": min(vocabulary, dice.choice([3, 4, 5, 6] if is_corner else [1, 1, 2, 2, 3, 4, 4, 5])),
            "max_length": dice.choice([2, 3, 4, 6, 9, 13, 20]), "min_length": dice.choice([0, 0, 0, 1, 2, 3, 5, 8, 13]),
            "length_penalty": dice.choice([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.5, -1.0, -0.3, 8.0, -8.0]),
            "early_stopping": dice.choice([False, True, "never"]), "ngram": dice.choice([0, 0, 1, 2, 3]),
            "start": dice.choice([0, 0, ends[0], dice.randrange(vocabulary)]), "ends": ends,
            "seeds": [dice.randrange(2 ** 31) for _ in range(dice.choice([1, 2, 3, 4]))]}


def differ(left, right):
    return any(ids != other_ids or abs(score - other) > 1e-5 * max(1, abs(score)) for (ids, score), (other_ids, other) in zip(left, right))


def main():
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")  # of min_length above max_length
    dice = random.Random(23)
    cases, firsts, left_out, of_batches = [], 0, 0, 0
    while len(cases) < CASES:
        case = drawn_case(dice)
        as_it_is, changed = ([search(case, [seed], changes)[0] for seed in case["seeds"]] for changes in (False, True))
        of_batches += differ(changed, search(case, case["seeds"], True))
        case["first"] = differ(as_it_is, changed)
        if case["first"]:
            if firsts == MOST_FIRST:
                left_out += 1
                continue
            firsts += 1
        case["ids"] = [ids for ids, _ in changed]
        case["scores"] = [float(f"{np.float32(score):.9g}") for _, score in changed]
        cases.append(case)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(f'{{"made_by": "tools/make_search_goldens.py, Transformers {transformers.__version__}, PyTorch {torch.__version__}",\n"cases": [\n{lines}]}}\n')
    empty = sum(score == -1e9 for case in cases for score in case["scores"])
    print(f"{len(cases)} cases, {sum(len(case['seeds']) for case in cases)} samples, {empty} of them without a result; "
          f"{firsts} cases depend on the first of equals, {left_out} more were left out; in {of_batches} a sample depends on its batch; "
          f"{FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
