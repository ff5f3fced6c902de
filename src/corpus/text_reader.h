// SPDX-License-Identifier: Apache-2.0
// Reads the text of a corpus: UTF-8, one sentence a line, an empty line between documents. A line of white space alone
// is empty, and the end of a file ends a document. Lines end as src/base/line_break.h says. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "src/index/data_files.h"

namespace bascule {

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

}  // namespace bascule
