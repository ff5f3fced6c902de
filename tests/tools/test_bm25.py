# SPDX-License-Identifier: Apache-2.0
"""tools/bm25.py: terms, scores and figures computed by hand, and the table beside a run's."""
import json
import math
import pathlib
import subprocess
import tempfile
import unittest

from tool_modules import ROOT
import bm25


class Terms(unittest.TestCase):
    def test_words_begin_at_capitals_points_and_underscores(self):
        self.assertEqual(bm25.words("asyncio.StreamReader.read_until"), ["asyncio", "stream", "reader", "read", "until"])
        self.assertEqual(bm25.words("HTTPServer, isn't it?"), ["http", "server", "isn", "t", "it"])

    def test_trigrams_are_the_parts_of_words(self):
        self.assertEqual(bm25.trigrams("is_file 3"), ["is", "fil", "ile", "3"])


class Scores(unittest.TestCase):
    DOCUMENTS = {"a": "cat dog", "b": "cat cat cat bird", "c": "fish"}

    def test_are_those_computed_by_hand(self):
        # Three documents of 2, 4 and 1 words: 7/3 on average. "cat" is in two, "fish" and "dog" in one.
        cat, rare = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
        self.assertAlmostEqual(cat, 0.4700036292, places=9)
        self.assertAlmostEqual(rare, 0.9808292530, places=9)
        scores = bm25.Bm25(self.DOCUMENTS, bm25.words).scores("a cat, a fish, a cat")
        # length / mean: 6/7, 12/7, 3/7; k1 (1 - b + b length / mean): 1.0714286, 1.8428571, 0.6857143.
        for one, expected in {"a": 2 * cat * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 6 / 7)), "b": 2 * cat * 3 * 2.2 / (3 + 1.2 * (0.25 + 0.75 * 12 / 7)), "c": rare * 2.2 / 1.6857142857}.items():
            self.assertAlmostEqual(scores[one], expected, places=9)
        self.assertAlmostEqual(scores["a"], 0.998353, places=6)
        self.assertAlmostEqual(scores["b"], 1.281072, places=6)
        self.assertAlmostEqual(scores["c"], 1.280065, places=6)

    def test_figures_are_means_over_queries_with_a_right_document(self):
        ranker = bm25.Bm25(self.DOCUMENTS, bm25.words)
        # "fish" ranks c, then a and b, whose scores are both 0, by id; "cat" ranks b, a, c.
        found = bm25.figures(ranker, {"1": "fish", "2": "cat", "3": "dog"}, {"1": {"b"}, "2": {"a", "b"}})
        self.assertEqual((found["accuracy_at_1"], found["accuracy_at_10"]), (0.5, 1.0))
        self.assertAlmostEqual(found["mrr_at_10"], (1 / 3 + 1) / 2)
        self.assertAlmostEqual(found["ndcg_at_10"], (1 / math.log2(4) + 1) / 2)


class Output(unittest.TestCase):
    def test_a_run_is_put_beside_it_and_whether_it_is_better_is_said(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "cat"}\n{"_id": "b", "title": "a", "text": "dog"}\n')
            (folder / "queries.jsonl").write_text('{"_id": "1", "text": "dogs"}\n')
            (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tb\t1\n1\ta\t0\n")
            for ndcg, words in ((0.75, "0.1191 above that of BM25, words and 0.2500 below that of BM25, trigrams"), (0.5, "0.1309 below that of BM25, words and 0.5000 below that of BM25, trigrams")):
                (folder / "all_results.json").write_text(json.dumps({"test_accuracy_at_1": 0.5, "test_accuracy_at_10": 1.0, "test_mrr_at_10": 0.5, "test_ndcg_at_10": ndcg}))
                out = subprocess.run([ROOT / "tools/bm25.py", folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels.tsv", "--run", folder], capture_output=True, text=True, check=True).stdout
                lines = [line.split() for line in out.splitlines()]
                self.assertEqual(lines[0], ["1", "queries", "over", "2", "documents"])
                self.assertEqual(lines[5], ["NDCG@10", f"{ndcg:.4f}", "0.6309", "1.0000"])
                self.assertEqual(out.splitlines()[-1], f"NDCG@10 of the model: {words}")
