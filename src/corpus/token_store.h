// SPDX-License-Identifier: Apache-2.0
// The text of a corpus, a part of it, and its tokens in a file. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/span.h"
#include "src/index/data_files.h"
#include "src/text/tokenizer.h"

namespace bascule {

// A text is UTF-8, one sentence a line, an empty line between documents. A line of white space alone is empty, and the
// end of a file ends a document. Lines end as src/base/utf8.h says.

// The longest line, in bytes: a file without line breaks is not one sentence a line.
inline constexpr std::size_t kLongestLine = std::size_t{1} << 20;

// The functions that are called while a corpus is read, in the order of its text. Documents may be empty.
struct TextVisitor {
  std::function<void(std::string_view sentence, std::int64_t line)> sentence;
  std::function<void()> end_document;
  std::function<void()> end_file;
};

// Returns the digest of the text: of the file's bytes, or of the digests of several. Throws Error (kData) naming the
// line that is not UTF-8 or too long, and where there is no sentence at all.
std::uint64_t read_text(const DataFiles& files, const TextVisitor& visitor);

// A part of a text corpus: the documents that are held out for validation, or the others. A document is held out by the
// digest of its text (is_held_out()), so the parts are the same for every tokenizer. Before the seal.

struct TextPart {
  double share = 0.0;        // of the documents, held out
  bool is_held_out = false;  // this part has those that are held out
  bool by_line = false;      // lines are held out in place of documents
};

// A digest that differs from that of the whole and of every other part.
std::uint64_t digest_of_part(std::uint64_t whole, const TextPart& part);

// As read_text(), of a part: the documents of others are empty. others: counts the documents with text, or lines, that
// were not passed on. Returns the digest_of_part(). Holds one document in memory, unless lines are held out.
std::uint64_t read_part(const DataFiles& files, const TextPart& part, const TextVisitor& visitor, std::int64_t* others);

// The tokens of a text corpus, and the file that keeps them.

// The tokens of a text corpus: the ids of its sentences end to end, without special tokens, and where sentences,
// documents and files end. An id takes two bytes, or four where the vocabulary has more than 65,536.
//
// A run tokenises its text once. The tokens are kept in the run's folder, in a file that is named by a digest of text,
// tokenizer and rules, and mapped from there. The next start reads no text: the file says which size, time of change
// and inode the text had. A file that is damaged, or of another text, is not used.
//
// Sentences of which the tokenizer leaves nothing are dropped, and documents without sentences.

// The name of such a file begins with this. It is hidden: the folder is published as a model's.
inline constexpr char kTokenStorePrefix[] = ".tokens-";

class TokenStore : NonCopyable {
 public:
  ~TokenStore();

  std::int64_t tokens() const noexcept { return tokens_; }
  std::int64_t sentences() const noexcept { return static_cast<std::int64_t>(sentence_end_.size()); }
  std::int64_t documents() const noexcept { return static_cast<std::int64_t>(document_end_.size()); }
  std::int64_t files() const noexcept { return static_cast<std::int64_t>(file_end_.size()); }
  std::int64_t longest_sentence() const noexcept { return longest_sentence_; }
  // Tokens before sentence i, sentences before document i, sentences before file i; i may be the number of them.
  std::int64_t sentence_begin(std::int64_t i) const noexcept { return begin(sentence_end_, i); }
  std::int64_t document_begin(std::int64_t i) const noexcept { return begin(document_end_, i); }
  std::int64_t file_begin(std::int64_t i) const noexcept { return begin(file_end_, i); }
  // The line of a sentence in its file.
  std::int64_t line(std::int64_t sentence) const noexcept { return line_[static_cast<std::size_t>(sentence)]; }
  // The sentence that a token belongs to.
  std::int64_t sentence_of(std::int64_t token) const noexcept;

  // Tokens first .. first + count - 1. Usable after the seal; allocates nothing.
  void copy(std::int64_t first, std::int64_t count, std::int32_t* ids) const noexcept;

  // The documents, or the lines, that a part of a text leaves out; 0 for a whole text.
  std::int64_t others() const noexcept { return others_; }
  // The digest of the text's bytes; of a part one that no other part has.
  std::uint64_t text_digest() const noexcept { return text_digest_; }
  // The size of the mapping, every page of which is resident. Processes that map one file share them.
  std::size_t mapped_bytes() const noexcept { return bytes_; }

 private:
  friend struct TokenStoreFile;
  TokenStore() = default;
  static std::int64_t begin(Span<const std::uint64_t> ends, std::int64_t i) noexcept {
    return i == 0 ? 0 : static_cast<std::int64_t>(ends[static_cast<std::size_t>(i - 1)]);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::int64_t tokens_ = 0, longest_sentence_ = 0;
  bool is_wide_ = false;
  Span<const std::uint64_t> sentence_end_, document_end_, file_end_;
  Span<const std::uint32_t> line_;
  std::uint64_t text_digest_ = 0;
  std::int64_t others_ = 0;
};

struct OpenedTokens {
  std::unique_ptr<const TokenStore> store;
  std::string note;  // for people, about what was made; mostly empty
  std::string file;  // the one that was made in the folder; mostly empty
};

// Before the seal. The store of this text and tokenizer from `folder`, or else made, which reads and tokenises the
// text. keeps: what is made is written into the folder, by one process at a time; else it stays in memory. part: of a
// part of the text alone, which may be empty. Throws Error: kData as read_text(), kDisk where it cannot be written.
OpenedTokens open_tokens(const DataFiles& files, const Tokenizer& tokenizer, const std::string& folder, bool keeps,
                         const std::optional<TextPart>& part = std::nullopt);

}  // namespace bascule
