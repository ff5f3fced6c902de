// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/token_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/error.h"
#include "tests/corpus/number_tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::NumberTokenizer;
using test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

DataFiles files_of(const std::vector<std::string>& paths) {
  PathsSetting setting;
  setting.written = paths;
  return find_data_files(setting);
}

Ids all_tokens(const TokenStore& store) {
  Ids ids(static_cast<std::size_t>(store.tokens()));
  store.copy(0, store.tokens(), ids.data());
  return ids;
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

struct Tokens : testing::Test {
  OpenedTokens open(const std::vector<std::string>& paths, bool keeps = true) {
    return open_tokens(files_of(paths), tokenizer, kept, keeps);
  }
  std::string refusal_of(const std::string& text) {
    return test::error_of([&] { open({folder.write("refused.txt", text)}); });
  }

  TemporaryFolder folder;
  const std::string kept = folder.path() + "/kept";
  NumberTokenizer tokenizer;
};

TEST_F(Tokens, AreThoseOfTheSentencesWithTheEndsOfSentencesDocumentsAndFiles) {
  // White space alone is an empty line, a sentence of no token is none, and a document of no sentence neither.
  const OpenedTokens opened = open({folder.write("a.txt",
                                                 "\xEF\xBB\xBF"
                                                 "10 11\n12\r\n \t\r\n\n\nnothing\n\n13 14 15\n"),
                                    folder.write("b.txt", "\n16\nnothing\n17 18")});
  const TokenStore& store = *opened.store;
  EXPECT_EQ(all_tokens(store), (Ids{10, 11, 12, 13, 14, 15, 16, 17, 18}));
  ASSERT_EQ(store.sentences(), 5);
  ASSERT_EQ(store.documents(), 3);
  ASSERT_EQ(store.files(), 2);
  EXPECT_EQ(store.longest_sentence(), 3);
  Ids begins, lines;
  for (int i = 0; i <= 5; ++i) begins.push_back(static_cast<std::int32_t>(store.sentence_begin(i)));
  for (int i = 0; i < 5; ++i) lines.push_back(static_cast<std::int32_t>(store.line(i)));
  EXPECT_EQ(begins, (Ids{0, 2, 3, 6, 7, 9}));
  EXPECT_EQ(lines, (Ids{1, 2, 8, 2, 4}));
  EXPECT_EQ(store.document_begin(1), 2);
  EXPECT_EQ(store.document_begin(2), 3);
  EXPECT_EQ(store.document_begin(3), 5);
  EXPECT_EQ(store.file_begin(1), 3);
  for (int token = 0; token < 9; ++token) {
    const std::int64_t sentence = store.sentence_of(token);
    EXPECT_TRUE(store.sentence_begin(sentence) <= token && token < store.sentence_begin(sentence + 1)) << token;
  }
}

// The carriage return of a line's end is no part of the sentence, as where Python reads a text.
TEST(Text, OfLinesThatEndWithACarriageReturnIsThatOfTheOthers) {
  const TemporaryFolder folder;
  for (const char* const text :
       {"one two\nthree\n\n four \nsix", "one two\r\nthree\r\n\r\n four \r\nsix\r", "one two\rthree\r\r four \rsix"}) {
    std::vector<std::string> read;
    TextVisitor visitor;
    visitor.sentence = [&](std::string_view sentence, std::int64_t line) {
      read.push_back(std::to_string(line) + std::string(sentence));
    };
    visitor.end_document = [&] { read.emplace_back("end"); };
    visitor.end_file = [] {};
    read_text(files_of({folder.write("a.txt", text)}), visitor);
    EXPECT_EQ(read, (std::vector<std::string>{"1one two", "2three", "end", "4 four ", "5six", "end"}));
  }
}

// Forty documents of two sentences, the last ten in a file of their own.
TEST_F(Tokens, OfDocumentsThatAreHeldOutAndOfTheOthersAreAllAndAddedOnesMoveNone) {
  std::string texts[2];
  for (int i = 0; i < 40; ++i) texts[i / 30] += std::to_string(100 + i) + " 7\n" + std::to_string(200 + i) + "\n\n";
  const std::vector<std::string> both = {folder.write("a.txt", texts[0]), folder.write("b.txt", texts[1])};
  const auto part = [&](const std::vector<std::string>& paths, bool is_held_out, bool by_line, bool keeps) {
    return open_tokens(files_of(paths), tokenizer, kept, keeps, TextPart{0.4, is_held_out, by_line});
  };
  for (const bool by_line : {false, true}) {
    const OpenedTokens held_out = part(both, true, by_line, true), others = part(both, false, by_line, false);
    EXPECT_GT(held_out.store->documents(), 3);
    EXPECT_GT(others.store->documents(), 3);
    if (!by_line) {
      EXPECT_EQ(held_out.store->documents() + others.store->documents(), 40);
      EXPECT_EQ(held_out.store->others(), others.store->documents());
    } else {
      EXPECT_EQ(held_out.store->others(), others.store->sentences());
    }
    EXPECT_EQ(held_out.store->sentences() + others.store->sentences(), 80);
    Ids all = all_tokens(*held_out.store), rest = all_tokens(*others.store), expected = all_tokens(*open(both).store);
    all.insert(all.end(), rest.begin(), rest.end());
    std::sort(all.begin(), all.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(all, expected);
    EXPECT_NE(held_out.store->text_digest(), others.store->text_digest());
    // Kept, and with lines and files of its own.
    EXPECT_EQ(part(both, true, by_line, true).note, "");
    ASSERT_EQ(held_out.store->files(), 2);
    EXPECT_EQ(held_out.store->file_begin(2), held_out.store->sentences());
    Ids first(1);
    held_out.store->copy(0, 1, first.data());
    const std::int64_t document = first[0] % 100;
    EXPECT_EQ(held_out.store->line(0), 3 * document + (first[0] < 200 ? 1 : 2));
    // The first file alone: the same of its documents.
    const Ids alone = all_tokens(*part({both[0]}, true, by_line, true).store), now = all_tokens(*held_out.store);
    ASSERT_LT(alone.size(), now.size());
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), now.begin()));
    // With another tokenizer the same documents.
    const NumberTokenizer wide(65537, 6);
    const OpenedTokens other = open_tokens(files_of(both), wide, kept, false, TextPart{0.4, true, by_line});
    EXPECT_EQ(all_tokens(*other.store), now);
  }
}

TEST_F(Tokens, TakeTwoBytesOrFourWhereTheVocabularyIsLarger) {
  const std::string text = folder.write("a.txt", "65535 70000 4\n");
  EXPECT_EQ(all_tokens(*open_tokens(files_of({text}), NumberTokenizer(65537, 6), kept, true).store),
            (Ids{65535, 70000, 4}));
  const std::string narrow = folder.write("b.txt", "65535 7 4\n");
  EXPECT_EQ(all_tokens(*open_tokens(files_of({narrow}), NumberTokenizer(65536, 7), kept, true).store),
            (Ids{65535, 7, 4}));
}

// The second text has the size, time of change and inode of the first, which is all that is looked at.
TEST_F(Tokens, OfASecondStartAreReadFromTheKeptFileAndNotFromTheText) {
  const std::string text = folder.write("a.txt", "10 11\n");
  EXPECT_NE(open({text}).note, "");
  struct stat facts = {};
  ASSERT_EQ(::stat(text.c_str(), &facts), 0);
  folder.write("a.txt", "20 21\n");
  const timespec times[] = {facts.st_atim, facts.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, text.c_str(), times, 0), 0);
  const OpenedTokens again = open({text});
  EXPECT_EQ(again.note, "");
  EXPECT_EQ(all_tokens(*again.store), (Ids{10, 11}));
}

TEST_F(Tokens, OfAnotherTextOrTokenizerAreMadeAnew) {
  EXPECT_EQ(all_tokens(*open({folder.write("a.txt", "10 11\n")}).store), (Ids{10, 11}));
  EXPECT_EQ(all_tokens(*open({folder.write("a.txt", "20 21 22\n")}).store), (Ids{20, 21, 22}));
  EXPECT_EQ(entries(kept).size(), 2u);
  const NumberTokenizer other(60000, 9);
  EXPECT_NE(open_tokens(files_of({folder.path() + "/a.txt"}), other, kept, true).note, "");
}

TEST_F(Tokens, OfADamagedFileAreMadeAnew) {
  const std::string text = folder.write("a.txt", "10 11\n12 13 14\n");
  open({text});
  ASSERT_EQ(entries(kept).size(), 1u);
  const std::string file = kept + "/" + entries(kept).front();
  const std::size_t bytes = std::filesystem::file_size(file);
  for (std::size_t place = 0; place < bytes; place += 3) {
    {
      std::fstream damaged(file, std::ios::binary | std::ios::in | std::ios::out);
      damaged.seekg(static_cast<std::streamoff>(place));
      const char byte = static_cast<char>(damaged.get() ^ 1);
      damaged.seekp(static_cast<std::streamoff>(place));
      damaged.put(byte);
    }
    const OpenedTokens again = open({text});
    EXPECT_NE(again.note, "") << place;
    EXPECT_EQ(all_tokens(*again.store), (Ids{10, 11, 12, 13, 14}));
    EXPECT_EQ(open({text}).note, "");
  }
  std::filesystem::resize_file(file, bytes / 2);
  EXPECT_EQ(all_tokens(*open({text}).store), (Ids{10, 11, 12, 13, 14}));
}

TEST_F(Tokens, StayInMemoryWhereTheFolderIsNotToBeWritten) {
  EXPECT_EQ(all_tokens(*open({folder.write("a.txt", "10 11\n")}, false).store), (Ids{10, 11}));
  EXPECT_FALSE(std::filesystem::exists(kept));
}

TEST_F(Tokens, AreWrittenByOneOfSeveralProcesses) {
  const std::string text = folder.write("a.txt", "10 11\n12\n");
  for (int round = 0; round < 100; ++round) {
    std::filesystem::remove_all(kept);
    std::vector<OpenedTokens> opened(4);
    std::vector<std::thread> threads;
    for (OpenedTokens& one : opened) threads.emplace_back([&] { one = open({text}); });
    for (std::thread& thread : threads) thread.join();
    int made = 0;
    for (const OpenedTokens& one : opened) {
      EXPECT_EQ(all_tokens(*one.store), (Ids{10, 11, 12}));
      made += one.note.empty() ? 0 : 1;
    }
    EXPECT_EQ(made, 1) << "round " << round;
    EXPECT_EQ(entries(kept).size(), 1u);
  }
}

TEST_F(Tokens, OfATextThatIsNoneAreRefusedWithOneLineThatNamesTheFault) {
  EXPECT_NE(refusal_of("10\n1\xFF\n").find("refused.txt:2: byte 1 of the line is not UTF-8"), std::string::npos);
  EXPECT_NE(refusal_of(std::string("10\n1\0 11 12\n", 11)).find("refused.txt:2: has NUL bytes"), std::string::npos);
  EXPECT_NE(refusal_of("\n \n\r\n").find("has no text"), std::string::npos);
  EXPECT_NE(refusal_of("").find("has no text"), std::string::npos);
  for (const std::size_t bytes : {kLongestLine + 1, 5 * kLongestLine}) {
    EXPECT_NE(refusal_of("10\n" + std::string(bytes, '1')).find("refused.txt:2: the line has more than 1048576 bytes"),
              std::string::npos);
  }
  for (const char* const end : {"\n10\n", "\r\n10\n", "\r"})  // no number of an id: an empty sentence
    EXPECT_EQ(refusal_of(std::string(kLongestLine, '1') + end), "no error");
  EXPECT_TRUE(entries(kept).size() == 3u) << "something is left of what was refused";
}

}  // namespace
}  // namespace bascule
