// SPDX-License-Identifier: Apache-2.0
// The text of a corpus: read by documents, and a part of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/index/data_files.h"

namespace bascule {

// Reads the text of a corpus: UTF-8, one sentence a line, an empty line between documents. A line of white space alone
// is empty, and the end of a file ends a document. Lines end as src/base/utf8.h says. Before the seal.

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
// digest of its text (src/index/manifest_part.h), so the parts are the same for every tokenizer. Before the seal.

struct TextPart {
  double share = 0.0;        // of the documents, held out
  bool is_held_out = false;  // this part has those that are held out
  bool by_line = false;      // lines are held out in place of documents
};

// A digest that differs from that of the whole and of every other part.
std::uint64_t digest_of_part(std::uint64_t whole, const TextPart& part);

// Passes on the sentences of one part. Holds one document in memory, unless lines are held out.
class PartReader {
 public:
  PartReader(const TextPart& part, TextVisitor next) : part_(part), next_(std::move(next)) {}

  // For read_text().
  TextVisitor visitor();
  // Documents with text, or lines, that were not passed on.
  std::int64_t others() const noexcept { return others_; }

 private:
  bool is_ours(const std::string& text);
  void end_document();

  const TextPart part_;
  const TextVisitor next_;
  std::int64_t others_ = 0;
  // The document, each sentence with a line break.
  std::string text_;
  std::vector<std::pair<std::size_t, std::int64_t>> sentences_;  // end in text_, with its line break; line
};

}  // namespace bascule
