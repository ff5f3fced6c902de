// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer.h"

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/pieces.h"

namespace bascule {
namespace {

constexpr std::int64_t kNotUtf8 = 0;  // detail[1] of a status: why
constexpr std::int64_t kPieceTooLong = 1;

struct AddedMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;  // -1: none, begin and end are the text's end
};

// The first added token at or after `place`, the longest where several begin together, with the white space that it
// takes.
AddedMatch find_added(std::string_view text, std::size_t place, const Vocabulary& vocabulary) noexcept {
  for (std::size_t i = place; i < text.size(); ++i) {
    if (!vocabulary.first_byte_of_added[static_cast<unsigned char>(text[i])]) continue;
    for (const AddedToken& token : vocabulary.added) {
      if (text.compare(i, token.text.size(), token.text) != 0) continue;
      AddedMatch match{i, i + token.text.size(), token.id};
      if (token.takes_space_before) match.begin = place + skip_space_back(text.substr(place), i - place);
      if (token.takes_space_after) match.end = skip_space(text, match.end);
      return match;
    }
  }
  return AddedMatch{text.size(), text.size(), -1};
}

}  // namespace

// Where ids go, without <s> and </s>; takes what fits.
class Tokenizer::Output {
 public:
  explicit Output(Span<std::int32_t> ids) noexcept : ids_(ids) {}
  bool full() const noexcept { return count_ == ids_.size(); }
  std::size_t count() const noexcept { return count_; }
  void add(std::int32_t id) noexcept {
    if (!full()) ids_[count_++] = id;
  }

 private:
  Span<std::int32_t> ids_;
  std::size_t count_ = 0;
};

Tokenizer Tokenizer::load(const std::string& folder) { return Tokenizer(load_vocabulary(folder)); }

Status Tokenizer::encode_between(std::string_view text, std::size_t begin, std::size_t end, Output& output,
                                 TokenizerScratch& scratch) const noexcept {
  const std::string_view stretch = text.substr(0, end);
  while (begin < end && !output.full()) {
    const std::size_t next = piece_end(stretch, begin);
    const std::string_view piece = stretch.substr(begin, next - begin);
    const std::int32_t word = vocabulary_.words.find(piece);
    if (word >= 0) {
      output.add(word);
    } else if (piece.size() > scratch.longest_piece_bytes()) {
      return Status{StatusCode::kBadSample, {static_cast<std::int64_t>(begin), kPieceTooLong}};
    } else {
      const PieceMerger merger(piece, vocabulary_, scratch);
      for (std::int32_t i = merger.first(); i >= 0; i = merger.next(i)) output.add(merger.token(i));
    }
    begin = next;
  }
  return ok_status();
}

Status Tokenizer::encode_text(std::string_view text, Output& output, TokenizerScratch& scratch) const noexcept {
  const std::size_t invalid = first_invalid_utf8(text);
  if (invalid < text.size()) return Status{StatusCode::kBadSample, {static_cast<std::int64_t>(invalid), kNotUtf8}};
  std::size_t place = 0;
  while (place < text.size() && !output.full()) {
    const AddedMatch added = find_added(text, place, vocabulary_);
    BASCULE_TRY(encode_between(text, place, added.begin, output, scratch));
    if (added.id >= 0) output.add(added.id);
    place = added.end;
  }
  return ok_status();
}

Status Tokenizer::encode_into(Span<const char> text, Span<std::int32_t> ids, std::int64_t* count,
                              TokenizerScratch& scratch) const noexcept {
  BASCULE_CHECK(ids.size() >= 2);
  Output output(ids.subspan(1, ids.size() - 2));
  BASCULE_TRY(encode_text(std::string_view(text.data(), text.size()), output, scratch));
  ids[0] = vocabulary_.bos_id;
  ids[output.count() + 1] = vocabulary_.eos_id;
  *count = static_cast<std::int64_t>(output.count()) + 2;
  return ok_status();
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::int64_t max_length) const {
  BASCULE_CHECK(max_length == 0 || max_length >= 2);
  // A token has at least one byte, so a text has at most as many tokens as bytes, and <s> and </s>.
  std::size_t longest = text.size() + 2;
  if (max_length > 0 && static_cast<std::size_t>(max_length) < longest) longest = static_cast<std::size_t>(max_length);
  std::vector<std::int32_t> ids(longest);
  std::vector<std::byte> memory(TokenizerScratch::bytes(text.size()));
  TokenizerScratch scratch{Span<std::byte>(memory)};
  std::int64_t count = 0;
  const Status status = encode_into(Span<const char>(text.data(), text.size()), ids, &count, scratch);
  if (!status.ok()) {
    throw Error{ErrorKind::kData, "text", "byte " + std::to_string(status.detail[0]) + " is not UTF-8",
                "write the text in UTF-8"};
  }
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

}  // namespace bascule
