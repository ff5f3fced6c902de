// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "tests/corpus/number_tokenizer.h"
#include "tests/support/seeded.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::NumberTokenizer;
using test::Seeded;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

// A random text, and its documents of sentences of tokens.
struct Text {
  explicit Text(Seeded& random) {
    std::int32_t id = 4;
    for (std::int64_t left = random.integer(1, 6); left > 0; --left) {
      document_lines.emplace_back();
      documents.emplace_back();
      for (std::int64_t sentences = random.integer(1, 5); sentences > 0; --sentences) {
        Ids sentence;
        for (std::int64_t tokens = random.integer(1, 9); tokens > 0; --tokens) {
          sentence.push_back(id++);
          written += std::to_string(sentence.back()) + " ";
        }
        written += "\n";
        document_lines.back().push_back(++line);
        documents.back().push_back(sentence);
      }
      written += "\n";
      ++line;
    }
  }

  std::string written;
  std::int64_t line = 0;
  std::vector<std::vector<Ids>> documents;
  std::vector<std::vector<std::int64_t>> document_lines;
};

Ids enclosed(const Ids& tokens) {
  Ids ids = {NumberTokenizer::kFirst};
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  ids.push_back(NumberTokenizer::kSeparator);
  return ids;
}

struct Corpora : testing::Test {
  Corpus open(const std::string& text, const CorpusRules& rules) {
    PathsSetting setting;
    setting.written = {folder.write("a.txt", text)};
    const DataFiles files = find_data_files(setting);
    return Corpus(open_tokens(files, tokenizer, folder.path() + "/kept", true).store, files, tokenizer, rules);
  }
  static Ids row(const Corpus& corpus, std::int64_t number) {
    Ids ids(static_cast<std::size_t>(corpus.longest()));
    const Encoded encoded = corpus.write(number, ids);
    EXPECT_EQ(encoded.second_begin, encoded.tokens);
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    return ids;
  }

  TemporaryFolder folder;
  NumberTokenizer tokenizer;
};

TEST_F(Corpora, InBlocksAreDocumentsEndToEndCutEveryLengthTokens) {
  Seeded random;
  for (int trial = 0; trial < 200; ++trial) {
    const Text text(random);
    Ids stream;
    std::vector<std::int64_t> lines;  // of each token of the stream
    for (std::size_t d = 0; d < text.documents.size(); ++d) {
      Ids tokens;
      std::vector<std::int64_t> own;
      for (std::size_t s = 0; s < text.documents[d].size(); ++s) {
        tokens.insert(tokens.end(), text.documents[d][s].begin(), text.documents[d][s].end());
        own.resize(tokens.size(), text.document_lines[d][s]);
      }
      const Ids around = enclosed(tokens);
      stream.insert(stream.end(), around.begin(), around.end());
      lines.push_back(own.front());
      lines.insert(lines.end(), own.begin(), own.end());
      lines.push_back(own.back());
    }
    const std::size_t length = static_cast<std::size_t>(random.integer(5, 12));
    if (stream.size() < length) continue;
    const Corpus corpus = open(text.written, {false, static_cast<std::int64_t>(length)});
    const Manifest manifest = corpus.manifest();
    ASSERT_EQ(corpus.rows(), static_cast<std::int64_t>(stream.size() / length));
    ASSERT_EQ(manifest.rows(), corpus.rows());
    for (std::int64_t r = 0; r < corpus.rows(); ++r) {
      const std::size_t begin = static_cast<std::size_t>(r) * length;
      ASSERT_EQ(row(corpus, r), Ids(stream.begin() + static_cast<std::ptrdiff_t>(begin),
                                    stream.begin() + static_cast<std::ptrdiff_t>(begin + length)));
      ASSERT_EQ(manifest.where(r), folder.path() + "/a.txt:" + std::to_string(lines[begin]));
    }
  }
}

TEST_F(Corpora, InLinesAreSentencesCutAtTheLength) {
  const Corpus corpus = open("10 11 12\n\n13\n14 15 16 17 18\n", {true, 6});
  ASSERT_EQ(corpus.rows(), 3);
  EXPECT_EQ(corpus.longest(), 6);
  EXPECT_EQ(row(corpus, 0), enclosed({10, 11, 12}));
  EXPECT_EQ(row(corpus, 1), enclosed({13}));
  EXPECT_EQ(row(corpus, 2), enclosed({14, 15, 16, 17}));
  EXPECT_EQ(corpus.manifest().where(1), folder.path() + "/a.txt:3");
  EXPECT_EQ(open("10 11 12\n", {true, 60}).longest(), 5);
}

TEST_F(Corpora, InPairsAreTwoTextsBetweenTheirSpecialTokensWithALabel) {
  const std::string text = "10 11 12\n13\n14 15\n\n16 17 18 19\n20\n\n21\n";
  CorpusRules rules{false, 9, PairRules()};
  rules.pairs->seed = 5;
  const Corpus corpus = open(text, rules);
  const Manifest manifest = corpus.manifest();
  PairRules own = *rules.pairs;
  own.max_tokens = 6;  // of 9, three are special
  const auto store = open_tokens(find_data_files(PathsSetting(folder.path() + "/a.txt")), tokenizer, "", false).store;
  const std::vector<SentencePair> pairs = make_pairs(*store, own);
  ASSERT_EQ(corpus.rows(), static_cast<std::int64_t>(pairs.size()));
  ASSERT_GT(corpus.rows(), 30);
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < corpus.rows(); ++r) {
    const SentencePair& pair = pairs[static_cast<std::size_t>(r)];
    const PairTokens left = tokens_of_pair(*store, pair, r, own);
    Ids expected = {NumberTokenizer::kFirst};
    for (std::int64_t i = left.first; i < left.first_end; ++i) expected.push_back(static_cast<std::int32_t>(10 + i));
    expected.push_back(NumberTokenizer::kSeparator);
    const std::int64_t second_begin = static_cast<std::int64_t>(expected.size());
    for (std::int64_t i = left.second; i < left.second_end; ++i) expected.push_back(static_cast<std::int32_t>(10 + i));
    expected.push_back(NumberTokenizer::kSeparator);
    Ids ids(static_cast<std::size_t>(corpus.longest()));
    const Encoded encoded = corpus.write(r, ids);
    ids.resize(static_cast<std::size_t>(encoded.tokens));
    ASSERT_EQ(ids, expected);
    ASSERT_EQ(encoded.second_begin, second_begin);
    ASSERT_EQ(manifest.row(r).label, pair.is_random ? 1 : 0);
    ASSERT_EQ(manifest.where(r), folder.path() + "/a.txt:" + std::to_string(store->line(pair.first)));
    longest = std::max(longest, encoded.tokens);
  }
  EXPECT_EQ(corpus.longest(), longest);
  EXPECT_THROW(open("10 11 12\n13\n", rules), Error);
}

TEST_F(Corpora, OfFewerTokensThanABlockAreRefused) {
  EXPECT_EQ(open("10 11 12\n", {false, 5}).rows(), 1);
  EXPECT_THROW(open("10 11 12\n", {false, 6}), Error);
  EXPECT_THROW(open("nothing\n", {true, 6}), Error);
}

}  // namespace
}  // namespace bascule
