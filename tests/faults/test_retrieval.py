# SPDX-License-Identifier: Apache-2.0
"""Evaluations by retrieval in whole runs: from files of documents, queries and relevance and from pairs, beside the same figures of the vectors of `bascule embed`; which weights are the best; what is refused."""
import array
import json
import math

from bascule_run import SharedFolderTest, run, run_ends, run_ok, settings
from relatives import DATA, SETTINGS, write_relatives
from run_files import tensors

KEYWORDS = DATA / "emoji-keywords"
WIDTH = 64
FILES = {f"data__validation_{kind}": f'"{{f}}/{name}"' for kind, name in (("corpus", "corpus.jsonl"), ("queries", "queries.jsonl"), ("relevance", "qrels.tsv"))}


def rows_of(name, count):
    return [json.loads(line) for line in (KEYWORDS / name).read_text().splitlines()[:count]]


def figures(queries, documents, relevant):
    """NDCG@10, MRR@10 and recall@5 of vectors of length 1; documents stand in the order in which equal scores rank."""
    sums = [0.0, 0.0, 0.0]
    for query, own in zip(queries, relevant):
        scores = [sum(a * b for a, b in zip(query, document)) for document in documents]
        order = sorted(range(len(documents)), key=lambda d: (-scores[d], d))
        hits = [rank for rank, d in enumerate(order, 1) if d in own]
        sums[0] += sum(1 / math.log2(rank + 1) for rank in hits if rank <= 10) / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(own), 10) + 1))
        sums[1] += 1 / hits[0] if hits[0] <= 10 else 0
        sums[2] += sum(rank <= 5 for rank in hits) / len(own)
    return [total / len(queries) for total in sums]


class Retrieval(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_relatives(cls.folder)
        cls.rows = rows_of("validation.jsonl", 60)
        texts = sorted({row["summary"] for row in cls.rows})
        cls.ids = {text: f"d{i}" for i, text in enumerate(texts)}
        (cls.folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": key, "text": text}) + "\n" for text, key in cls.ids.items()))
        (cls.folder / "queries.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": row["text"]}) + "\n" for i, row in enumerate(cls.rows)))
        (cls.folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\t{cls.ids[row['summary']]}\t1\n" for i, row in enumerate(cls.rows)))
        (cls.folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cls.rows))

    def trained(self, name, code=0, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        names = {f"model__{key}": value.replace('"bert"', f'"{self.folder}/bert"') for key, value in SETTINGS["bert"].items()}
        common = {**names, "model__head": '"sentence_embedding"', "data__train_file": f'"{KEYWORDS}/train.jsonl"', "data__text_column": '"text"', "data__text_pair_column": '"summary"',
                  "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "6", "training__eval_steps": "2", "training__save_steps": "2", "training__per_device_train_batch_size": "16"}
        chosen = {key: value.replace("{f}", str(self.folder)) for key, value in {**common, **changes}.items() if value is not None} | {key: None for key, value in {**common, **changes}.items() if value is None}
        done = run_ends(code, "run", settings(folder, **chosen))
        return done if code else folder / "run"

    def vectors(self, model, texts):
        path = self.folder / "vectors.safetensors"
        run_ok("embed", model, "-", "--output", path, input="".join(text + "\n" for text in texts))
        values = array.array("f", tensors(path)["embeddings"].tobytes())
        path.unlink()
        rows = [values[i:i + WIDTH] for i in range(0, len(values), WIDTH)]
        return [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in rows]

    def check_figures(self, model, results, documents, relevant):
        ndcg, mrr, recall = figures(self.vectors(model, [row["text"] for row in self.rows]), self.vectors(model, documents), relevant)
        for key, expected in (("eval_ndcg_at_10", ndcg), ("eval_mrr_at_10", mrr), ("eval_recall_at_5", recall)):
            self.assertAlmostEqual(results[key], expected, places=9, msg=key)

    def test_files_are_judged_as_the_vectors_say(self):
        model = self.trained("files", **FILES, training__metric_for_best_model='"ndcg_at_10"', training__load_best_model_at_end="true")
        results = json.loads((model / "validation_results.json").read_text())
        self.assertNotIn("eval_loss", results)
        documents = sorted(self.ids, key=self.ids.get)
        places = {text: i for i, text in enumerate(documents)}
        self.check_figures(model, results, documents, [{places[row["summary"]]} for row in self.rows])
        history = json.loads((model / "trainer_state.json").read_text())
        found = [line["eval_ndcg_at_10"] for line in history["log_history"] if "eval_ndcg_at_10" in line]
        self.assertEqual(len(found), 3)
        self.assertEqual(history["best_metric"], max(found))
        self.assertIn("Retrieval: query to texts", (model / "report.html").read_text())
        self.assertIn("ndcg_at_10", run("list", model.parent).stdout)

    def test_is_repeated_to_the_bits_and_another_judgement_is_found(self):
        own = {key: value.replace("qrels", "judgements") for key, value in FILES.items()}
        judged = (self.folder / "qrels.tsv").read_text()
        (self.folder / "judgements.tsv").write_text(judged)
        folder = self.trained("repeated", **own)
        done = run_ok("reproduce", folder)
        self.assertIn("equal bits: ", done.stdout)
        (self.folder / "judgements.tsv").write_text(judged.replace("\nq0\t", "\nq1\t", 1))
        self.assertIn("corpus.jsonl: documents, queries or relevance differ", run_ends(7, "reproduce", folder, "--check").stdout)

    def test_pairs_are_their_own_queries_and_documents(self):
        model = self.trained("pairs", data__validation_file='"{f}/pairs.jsonl"')
        results = json.loads((model / "validation_results.json").read_text())
        self.assertIn("eval_loss", results)
        documents = list(dict.fromkeys(row["summary"] for row in self.rows))
        places = {text: i for i, text in enumerate(documents)}
        self.check_figures(model, results, documents, [{places[row["summary"]]} for row in self.rows])

    def test_refuses_what_does_not_go_together(self):
        for changes, message in [({"data__validation_corpus": '"{f}/corpus.jsonl"'}, "data.validation_queries is not"),
                                 ({**FILES, "data__validation_file": '"{f}/pairs.jsonl"'}, "are both set"),
                                 ({**FILES, "data__max_eval_samples": "3"}, "cannot be limited"),
                                 ({**FILES, "data__test_file": '"{f}/pairs.jsonl"'}, "and the other is not"),
                                 ({**FILES, "model__head": '"masked_lm"', "data__text_pair_column": None}, "embeds no texts")]:
            self.assertIn(message, self.trained("refused", code=2, **changes).stderr)
