#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks the documents of a retrieval by BM25 and compares the figures with those of a run that embeds texts.

  tools/bm25.py CORPUS QUERIES RELEVANCE [--run RUN]

CORPUS, QUERIES, RELEVANCE: files in the form of BEIR, as data.test_corpus, data.test_queries and data.test_relevance name them. RUN: the output_dir of a run whose test was
this retrieval.

BM25 is that of Lucene, with k1 = 1.2 and b = 0.75: a document's score is the sum, over the terms of the query, of
    log(1 + (N - n + 0.5) / (n + 0.5)) * f * (k1 + 1) / (f + k1 * (1 - b + b * length / mean length)),
where n of the N documents have the term, and this one has it f times among its `length` terms. There are two kinds of terms:
- words: letters and digits in lower case. A new word begins at a capital inside of a word: `StreamReader.read_line` has four.
- trigrams: the parts of three characters of these words, so that `directories` and `directory` have most terms in common. Shorter words are terms themselves.
Equal scores rank by id. The figures are those of src/judge/retrieval.h.
"""
import argparse
import collections
import json
import math
import pathlib
import re

K1, B = 1.2, 0.75
FIGURES = {"accuracy_at_1": "accuracy@1", "accuracy_at_10": "accuracy@10", "mrr_at_10": "MRR@10", "ndcg_at_10": "NDCG@10"}


def words(text):
    apart = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", apart)
    return re.findall(r"[^\W_]+", apart.lower())


def trigrams(text):
    return [word[i:i + 3] for word in words(text) for i in range(max(1, len(word) - 2))]


TERMS = {"words": words, "trigrams": trigrams}


class Bm25:
    def __init__(self, documents, terms_of):
        """documents: {id: text}"""
        self.terms_of = terms_of
        self.ids = sorted(documents)
        counts = [collections.Counter(terms_of(documents[one])) for one in self.ids]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / len(lengths)
        having = collections.Counter(term for count in counts for term in count)
        self.weights = collections.defaultdict(list)  # by term: (document, what it adds to the score)
        for place, (count, length) in enumerate(zip(counts, lengths)):
            for term, times in count.items():
                rarity = math.log(1 + (len(counts) - having[term] + 0.5) / (having[term] + 0.5))
                self.weights[term].append((place, rarity * times * (K1 + 1) / (times + K1 * (1 - B + B * length / mean))))

    def scores(self, query):
        """{id: score}"""
        sums = [0.0] * len(self.ids)
        for term in self.terms_of(query):
            for place, weight in self.weights.get(term, ()):
                sums[place] += weight
        return dict(zip(self.ids, sums))


def figures(ranker, queries, relevant):
    """queries: {id: text}; relevant: {id of a query: set of ids of documents}. Queries without a relevant document are left out."""
    judged = [one for one in queries if relevant.get(one)]
    sums = dict.fromkeys(FIGURES, 0.0)
    for one in judged:
        scores, own = ranker.scores(queries[one]), relevant[one]
        first = sorted(scores, key=lambda document: (-scores[document], document))[:10]
        hits = [rank for rank, document in enumerate(first, 1) if document in own]
        sums["accuracy_at_1"] += hits[:1] == [1]
        sums["accuracy_at_10"] += bool(hits)
        sums["mrr_at_10"] += 1 / hits[0] if hits else 0
        sums["ndcg_at_10"] += sum(1 / math.log2(rank + 1) for rank in hits) / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(own), 10) + 1))
    return {key: total / len(judged) for key, total in sums.items()}


def read_texts(path):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {row["_id"]: " ".join(part for part in (row.get("title", ""), row["text"]) if part) for row in rows}


def read_relevance(path):
    relevant = collections.defaultdict(set)
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        if float(score) > 0:
            relevant[query].add(document)
    return relevant


def table(columns):
    """columns: {heading: figures}"""
    lines = ["  " + " " * 12 + "".join(f"{heading:>18}" for heading in columns)]
    for key, name in FIGURES.items():
        shown = [f"{100 * found[key]:.1f} %" if key.startswith("accuracy") else f"{found[key]:.4f}" for found in columns.values()]
        lines.append(f"  {name:<12}" + "".join(f"{value:>18}" for value in shown))
    return "\n".join(lines)


def verdict(model, others):
    """The NDCG@10 of the model beside those of the others."""
    parts = []
    for heading, found in others.items():
        difference = model["ndcg_at_10"] - found["ndcg_at_10"]
        parts.append(f"{abs(difference):.4f} {'above' if difference > 0 else 'below'} that of {heading}")
    return "NDCG@10 of the model: " + " and ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("corpus", "queries", "relevance"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path)
    arguments = parser.parse_args()
    documents, queries, relevant = read_texts(arguments.corpus), read_texts(arguments.queries), read_relevance(arguments.relevance)
    found = {f"BM25, {name}": figures(Bm25(documents, terms_of), queries, relevant) for name, terms_of in TERMS.items()}
    print(f"{len(queries):,} queries over {len(documents):,} documents")
    if not arguments.run:
        print(table(found))
        return
    results = json.loads((arguments.run / "all_results.json").read_text(encoding="utf-8"))
    model = {key: results[f"test_{key}"] for key in FIGURES}
    print(table({"the model": model, **found}))
    print(verdict(model, found))


if __name__ == "__main__":
    main()
