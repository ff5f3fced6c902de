// SPDX-License-Identifier: Apache-2.0
// Documents, queries and judgements in the files of BEIR.
#include "src/index/relevance.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_relevance {
namespace {

using test::error_of;
using test::TemporaryFolder;

constexpr char kCorpus[] =
    "{\"_id\": \"d10\", \"title\": \"Cats\", \"text\": \"purr\", \"metadata\": {\"url\": \"x\"}}\n\n"
    "{\"_id\": \"d2\", \"title\": \"\", \"text\": \"dogs bark\"}\n"
    "{\"_id\": \"d1\", \"title\": null, \"text\": \"\"}\n";
constexpr char kQueries[] =
    "{\"_id\": \"q1\", \"text\": \"who barks\"}\n{\"_id\": \"q2\", \"text\": \"nobody\"}\n"
    "{\"_id\": \"q3\", \"text\": \"who purrs\"}\n";
constexpr char kRelevance[] = "query-id\tcorpus-id\tscore\nq3\td10\t2\nq1\td2\t1\nq3\td1\t1\nq2\td1\t0\nq1\td1\t-1\n";

struct Relevant : testing::Test {
  RetrievalFiles files(const std::string& corpus, const std::string& queries, const std::string& relevance) const {
    return {folder.write("corpus.jsonl", corpus), folder.write("queries.jsonl", queries),
            folder.write("qrels.tsv", relevance)};
  }
  Manifest load(const std::string& corpus, const std::string& queries, const std::string& relevance) const {
    return load_retrieval(files(corpus, queries, relevance));
  }
  // The message, without the folder.
  std::string refused(const std::string& corpus, const std::string& queries, const std::string& relevance) const {
    std::string message = error_of([&] { (void)load(corpus, queries, relevance); });
    for (std::size_t at; (at = message.find(folder.path() + "/")) != std::string::npos;)
      message.erase(at, folder.path().size() + 1);
    return message;
  }
  TemporaryFolder folder;
};

std::vector<std::string> texts_of(const Manifest& manifest) {
  std::vector<std::string> texts;
  for (std::int64_t row = 0; row < manifest.rows(); ++row) texts.emplace_back(manifest.row(row).text);
  return texts;
}

TEST_F(Relevant, DocumentsThenQueriesThatHaveARelevantOne) {
  const Manifest manifest = load(kCorpus, kQueries, kRelevance);
  EXPECT_EQ(texts_of(manifest), (std::vector<std::string>{"Cats purr", "dogs bark", "", "who barks", "who purrs"}));
  EXPECT_EQ(manifest.where(1), folder.path() + "/corpus.jsonl:3");
  EXPECT_EQ(manifest.where(4), folder.path() + "/queries.jsonl:3");
  ASSERT_NE(manifest.relevance(), nullptr);
  const Relevance& relevance = *manifest.relevance();
  EXPECT_EQ(relevance.documents, 3);
  EXPECT_EQ(relevance.queries, 2);
  // By id as strings: d1, d10, d2.
  EXPECT_EQ(relevance.places, (std::vector<std::int32_t>{1, 2, 0, 3, 4}));
  EXPECT_EQ(relevance.first, (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(relevance.relevant, (std::vector<std::int32_t>{2, 0, 1}));
}

TEST_F(Relevant, NeedsNoHeaderAndTakesSeveralFiles) {
  const std::string other = "{\"_id\": \"e\", \"text\": \"more\"}";
  RetrievalFiles several = files(kCorpus, kQueries, "q1\td2\t1\r\nq2\te\t1");
  several.corpus.written.push_back(folder.write("more.jsonl", other));
  const Manifest manifest = load_retrieval(several);
  EXPECT_EQ(manifest.rows(), 6);
  EXPECT_EQ(manifest.relevance()->relevant, (std::vector<std::int32_t>{2, 3}));
  // A judgement more is another data set.
  several = files(kCorpus, kQueries, "q1\td2\t1\r\nq2\te\t1\nq2\td1\t0\n");
  several.corpus.written.push_back(folder.path() + "/more.jsonl");
  EXPECT_NE(load_retrieval(several).digest(), manifest.digest());
}

TEST_F(Relevant, RefusesWhatIsWrongInOneLine) {
  EXPECT_EQ(refused(kCorpus, kQueries, "q1\td2\n"),
            "qrels.tsv:1: 2 columns, not 3; write query-id, corpus-id and score, with tabs between");
  EXPECT_EQ(refused(kCorpus, kQueries, "q1\td2\thigh\n"),
            "qrels.tsv:1: the score is \"high\", not a whole number; write query-id, corpus-id and score, with tabs "
            "between");
  EXPECT_EQ(refused(kCorpus, kQueries, "q1\td2\t1\nq9\td2\t1\n"),
            "qrels.tsv:2: no query has the id \"q9\"; correct the id, or remove the line");
  EXPECT_EQ(refused(kCorpus, kQueries, "q1\td99\t1\n"),
            "qrels.tsv:1: no document has the id \"d99\"; correct the id, or remove the line");
  EXPECT_EQ(refused(kCorpus, kQueries, "q1\td1\t1\nq1\td2\t1\nq1\td1\t1\n"),
            "qrels.tsv:3: the same query and document are on line 1; remove one of the lines");
  EXPECT_EQ(refused(kCorpus, kQueries, "query-id\tcorpus-id\tscore\nq1\td1\t0\n"),
            "qrels.tsv: names no relevant document: no line has a score above 0; write query-id, corpus-id and score, "
            "with tabs between");
  EXPECT_EQ(refused(std::string(kCorpus) + "{\"_id\": \"d2\", \"text\": \"x\"}\n", kQueries, kRelevance),
            "corpus.jsonl:5: the _id \"d2\" is that of an earlier line; give each text its own");
  EXPECT_EQ(refused(kCorpus, std::string(kQueries) + "{\"_id\": \"q3\", \"text\": \"x\"}\n", kRelevance),
            "queries.jsonl:4: the _id \"q3\" is that of an earlier line; give each text its own");
  EXPECT_EQ(refused("\n", kQueries, kRelevance), "corpus.jsonl: has no documents; add at least one");
  EXPECT_NE(refused("{\"text\": \"x\"}", kQueries, kRelevance).find("corpus.jsonl:1"), std::string::npos);
  EXPECT_NE(refused("{\"_id\": \"d1\"}", kQueries, kRelevance).find("\"text\""), std::string::npos);
  EXPECT_NE(refused("{\"_id\": 7, \"text\": \"x\"}", kQueries, kRelevance).find("\"_id\""), std::string::npos);
  EXPECT_EQ(refused("[]", kQueries, kRelevance), "corpus.jsonl:1: not a JSON object; write one object a line");
}

TEST_F(Relevant, PutsPromptsBeforeDocumentsAndQueries) {
  const Manifest manifest = load_retrieval(files(kCorpus, kQueries, kRelevance), {"d: ", "q: "});
  EXPECT_EQ(texts_of(manifest),
            (std::vector<std::string>{"d: Cats purr", "d: dogs bark", "d: ", "q: who barks", "q: who purrs"}));
  EXPECT_EQ(manifest.relevance()->left_out, 1);
}

// Anchor a has two positives, of which one is a negative of another row; x is an anchor and a document.
TEST_F(Relevant, RowsAreTheirOwnQueriesAndDocuments) {
  ManifestColumns columns;
  columns.image = "";
  columns.text = "a";
  columns.second_text = "p";
  columns.further_texts = {"n"};
  const Manifest manifest = Manifest::load(
      folder.write("rows.jsonl",
                   "{\"a\": \"a\", \"p\": \"x\", \"n\": \"y\"}\n{\"a\": \"x\", \"p\": \"z\", \"n\": \"x\"}\n"
                   "{\"a\": \"a\", \"p\": \"z\", \"n\": \"y\"}\n{\"a\": \"a\", \"p\": \"x\", \"n\": \"w\"}\n"),
      columns);
  const Relevance relevance = relevance_of_rows(manifest);
  EXPECT_EQ(relevance.texts_in_a_row, 3);
  EXPECT_EQ(relevance.documents, 4);  // x, y, z, w
  EXPECT_EQ(relevance.queries, 2);
  EXPECT_EQ(relevance.places, (std::vector<std::int32_t>{4, 0, 1, 5, 2, -1, -1, -1, -1, -1, -1, 3}));
  EXPECT_EQ(relevance.first, (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(relevance.relevant, (std::vector<std::int32_t>{0, 2, 2}));
}

}  // namespace
}  // namespace bascule::test_relevance
