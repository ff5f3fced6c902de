// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/utf8.h"
#include "src/text/clip.h"
#include "src/text/clip_files.h"
#include "src/text/unicode_classes.h"
#include "src/text/vocabulary.h"

namespace bascule {
namespace {

// Python's str.strip() drops U+001C .. U+001F too.
bool is_stripped(std::string_view character) noexcept {
  const std::uint32_t code_point = utf8_character(character, 0).code_point;
  return (code_point >= 0x1c && code_point < 0x20) || character_class(code_point) == CharacterClass::kSpace;
}

// Drops white space at both ends of what is written.
class StrippedText {
 public:
  explicit StrippedText(Span<char> text) noexcept : text_(text) {}
  void put(std::string_view character) noexcept {
    const bool is_space = is_stripped(character);
    if (is_space && end_ == 0) return;
    for (const char c : character) {
      if (written_ < text_.size()) text_[written_] = c;
      ++written_;
    }
    if (!is_space) end_ = written_;
  }
  std::size_t bytes() const noexcept { return end_; }

 private:
  Span<char> text_;
  std::size_t written_ = 0, end_ = 0;  // with, and without the white space that may be at the end
};

// Writes a space for each "</w>".
class WordEnds {
 public:
  WordEnds(std::string_view mark, StrippedText& text) noexcept : mark_(mark), text_(text) {}
  void put(std::string_view character) noexcept {
    if (continues(character)) {
      if (++matched_ < mark_.size()) return;
      matched_ = 0;
      return text_.put(" ");
    }
    finish();
    if (continues(character)) {
      matched_ = 1;
    } else {
      text_.put(character);
    }
  }
  void finish() noexcept {
    for (std::size_t i = 0; i < matched_; ++i) text_.put(mark_.substr(i, 1));
    matched_ = 0;
  }

 private:
  bool continues(std::string_view character) const noexcept { return character == mark_.substr(matched_, 1); }

  std::string_view mark_;
  StrippedText& text_;
  std::size_t matched_ = 0;  // bytes of the mark that have been seen
};

// Bytes to characters; U+FFFD for the most bytes that begin a character and do not end it, and for each other byte that
// is none.
class Utf8Repair {
 public:
  explicit Utf8Repair(WordEnds& text) noexcept : text_(text) {}
  void put(char byte) noexcept {
    pending_[count_++] = byte;
    if (first_invalid_utf8({pending_, count_}) == count_) {
      text_.put({pending_, count_});
      count_ = 0;
    } else if (!may_become_character()) {
      const bool is_alone = count_ == 1;
      text_.put(kReplacement);
      count_ = 0;
      if (!is_alone) put(byte);  // it may begin a character itself
    }
  }
  void finish() noexcept {
    if (count_ > 0) text_.put(kReplacement);
    count_ = 0;
    text_.finish();
  }

 private:
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

  // There is a way to go on: continuation bytes of 80 .. BF, or A0 .. in the second place after E0, 90 .. after F0.
  bool may_become_character() const noexcept {
    char whole[4];
    std::copy(pending_, pending_ + count_, whole);
    for (const char second : {'\x80', '\xBF'}) {
      for (std::size_t bytes = count_ + 1; bytes <= 4; ++bytes) {
        std::fill(whole + count_, whole + bytes, second);
        if (utf8_bytes_at({whole, bytes}, 0) == bytes) return true;
      }
    }
    return false;
  }

  WordEnds& text_;
  char pending_[4];
  std::size_t count_ = 0;
};

class ClipDecoder final : public TokenDecoder {
 public:
  // bytes: by id; empty for those that a decoder leaves out.
  ClipDecoder(std::vector<std::string> bytes, std::string word_end)
      : TokenDecoder(most_bytes(bytes)), bytes_(std::move(bytes)), word_end_(std::move(word_end)) {}

  std::size_t decode_into(Span<const std::int32_t> ids, Span<char> text) const noexcept override {
    StrippedText stripped(text);
    WordEnds ends(word_end_, stripped);
    Utf8Repair repair(ends);
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= bytes_.size()) continue;
      for (const char byte : bytes_[static_cast<std::size_t>(id)]) repair.put(byte);
    }
    repair.finish();
    return stripped.bytes();
  }

 private:
  // Each byte may be one that becomes U+FFFD.
  static std::size_t most_bytes(const std::vector<std::string>& tokens) {
    std::size_t longest = 0;
    for (const std::string& token : tokens) longest = std::max(longest, token.size());
    return 3 * longest;
  }

  std::vector<std::string> bytes_;
  std::string word_end_;
};

}  // namespace

std::unique_ptr<const TokenDecoder> load_clip_decoder(const TokenizerFolder& folder) {
  const BpeFiles files = read_clip_files(folder);
  std::vector<std::string> texts = token_texts(files);
  for (const AddedToken& token : files.added) {
    if (token.special) texts[static_cast<std::size_t>(token.id)].clear();
  }
  for (std::string& text : texts) text = token_bytes(text).value_or(text);
  return std::make_unique<ClipDecoder>(std::move(texts), files.word_end);
}

}  // namespace bascule
