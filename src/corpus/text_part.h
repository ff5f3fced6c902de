// SPDX-License-Identifier: Apache-2.0
// A part of a text corpus: the documents that are held out for validation, or the others. A document is held out by the
// digest of its text (src/index/manifest_part.h), so the parts are the same for every tokenizer. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/corpus/text_reader.h"

namespace bascule {

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
