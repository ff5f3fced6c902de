// SPDX-License-Identifier: Apache-2.0
// The text of a corpus: read by documents, and a part of them. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "src/index/data_files.h"

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

}  // namespace bascule
