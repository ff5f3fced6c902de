// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/text_part.h"

#include <cstring>
#include <string_view>

#include "src/base/digest.h"
#include "src/index/manifest_part.h"

namespace bascule {

std::uint64_t digest_of_part(std::uint64_t whole, const TextPart& part) {
  std::uint64_t share = 0;
  std::memcpy(&share, &part.share, sizeof share);
  Digest digest;
  for (const std::uint64_t number : {whole, share, std::uint64_t{part.is_held_out}, std::uint64_t{part.by_line}})
    digest.add_number(number);
  return digest.value();
}

bool PartReader::is_ours(const std::string& text) {
  const bool is_ours = is_held_out(digest_of(text.data(), text.size()), part_.share) == part_.is_held_out;
  if (!is_ours) ++others_;
  return is_ours;
}

void PartReader::end_document() {
  if (!sentences_.empty() && is_ours(text_)) {
    std::size_t begin = 0;
    for (const auto& [end, line] : sentences_) {
      next_.sentence(std::string_view(text_).substr(begin, end - 1 - begin), line);
      begin = end;
    }
  }
  text_.clear();
  sentences_.clear();
  next_.end_document();
}

TextVisitor PartReader::visitor() {
  TextVisitor visitor;
  visitor.sentence = [this](std::string_view sentence, std::int64_t line) {
    text_.append(sentence).push_back('\n');
    if (!part_.by_line) {
      sentences_.emplace_back(text_.size(), line);
      return;
    }
    if (is_ours(text_)) next_.sentence(sentence, line);
    text_.clear();
  };
  visitor.end_document = [this] { end_document(); };
  visitor.end_file = next_.end_file;
  return visitor;
}

}  // namespace bascule
