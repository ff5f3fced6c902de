// SPDX-License-Identifier: Apache-2.0
#include "src/text/clip.h"

#include <algorithm>
#include <utility>

#include "src/base/utf8.h"
#include "src/text/bpe_files.h"
#include "src/text/byte_level_bpe.h"
#include "src/text/unicode_tables.h"
#include "src/text/vocabulary.h"

namespace bascule {

std::size_t normalise_clip_text(std::string_view text, std::uint64_t* characters, char* out) noexcept {
  const std::size_t count = nfc(text, characters);
  std::size_t bytes = 0;
  bool is_after_space = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t code_point = static_cast<std::uint32_t>(characters[i]);
    const bool is_space = character_class(code_point) == CharacterClass::kSpace;
    if (is_space) {
      if (!is_after_space) out[bytes++] = ' ';
    } else {
      const CodePointPair lower = lower_case(code_point);
      bytes += put_utf8(lower.first, out + bytes);
      if (lower.second != 0) bytes += put_utf8(lower.second, out + bytes);
    }
    is_after_space = is_space;
  }
  return bytes;
}

std::string normalised_clip_text(std::string_view text) {
  std::vector<std::uint64_t> characters(nfc_code_points(text.size()));
  std::string out(clip_text_bytes(text.size()), '\0');
  out.resize(normalise_clip_text(text, characters.data(), out.data()));
  return out;
}

namespace {

// The working memory of one text, laid over memory of the caller.
struct ClipWork {
  std::uint64_t* characters;
  char* text;
  MergeScratch merging;
};

class Clip final : public Tokenizer {
 public:
  Clip(TokenizerFacts facts, Vocabulary vocabulary, AddedTokens normalised)
      : Tokenizer(std::move(facts)), vocabulary_(std::move(vocabulary)), normalised_(std::move(normalised)) {}
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    const std::size_t normalised = clip_text_bytes(longest_text_bytes);
    return alignof(std::uint64_t) + nfc_code_points(longest_text_bytes) * sizeof(std::uint64_t) + normalised +
           MergeScratch::bytes(normalised);
  }

 private:
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override;
  void tokenize_between(std::string_view text, TokenOutput& output, ClipWork& work) const noexcept;
  void tokenize_normalised(std::string_view text, TokenOutput& output, MergeScratch& merging) const noexcept;
  void add_piece(std::string_view piece, TokenOutput& output, MergeScratch& merging) const noexcept;

  Vocabulary vocabulary_;
  AddedTokens normalised_;  // those that are found in the normalised text
};

void Clip::add_piece(std::string_view piece, TokenOutput& output, MergeScratch& merging) const noexcept {
  const std::int32_t word = vocabulary_.words.find(piece);
  if (word >= 0) return output.add(word);
  const PieceMerger merger(piece, vocabulary_, merging);
  for (std::int32_t i = merger.first(); i >= 0; i = merger.next(i)) output.add(merger.token(i));
}

void Clip::tokenize_normalised(std::string_view text, TokenOutput& output, MergeScratch& merging) const noexcept {
  for (std::size_t begin = skip_space(text, 0); begin < text.size() && !output.is_done();) {
    const std::size_t end = clip_piece_end(text, begin);
    // GPT-2's pattern cuts the name of a special token, which lower case may have made, where CLIP's does not.
    for (const std::string_view piece = text.substr(0, end); begin < end;) {
      const std::size_t next = piece_end(piece, begin);
      add_piece(piece.substr(begin, next - begin), output, merging);
      begin = next;
    }
    begin = skip_space(text, end);
  }
}

void Clip::tokenize_between(std::string_view text, TokenOutput& output, ClipWork& work) const noexcept {
  const std::string_view normalised(work.text, normalise_clip_text(text, work.characters, work.text));
  for (AddedMatch added; added.next < normalised.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = normalised_.find(normalised, added);
    tokenize_normalised(normalised.substr(place, added.begin - place), output, work.merging);
    if (added.id >= 0) output.add(added.id);
  }
}

Status Clip::tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept {
  if (scratch.size() < scratch_bytes(text.size())) return Status{StatusCode::kBadSample, {0, kPieceTooLong}};
  const std::size_t size = scratch.size(),
                    skipped = -reinterpret_cast<std::uintptr_t>(scratch.data()) % alignof(std::uint64_t);
  const std::size_t text_begin = skipped + nfc_code_points(text.size()) * sizeof(std::uint64_t);
  const std::size_t merging_begin = text_begin + clip_text_bytes(text.size());
  void* const characters = scratch.data() + skipped;
  void* const normalised = scratch.data() + text_begin;
  ClipWork work{static_cast<std::uint64_t*>(characters), static_cast<char*>(normalised),
                MergeScratch(scratch.subspan(merging_begin, size - merging_begin))};
  for (AddedMatch added; added.next < text.size() && !output.is_done();) {
    const std::size_t place = added.end;
    added = vocabulary_.added.find(text, added);
    tokenize_between(text.substr(place, added.begin - place), output, work);
    if (added.id >= 0) output.add(added.id);
  }
  return ok_status();
}

}  // namespace

std::unique_ptr<const Tokenizer> load_clip(const TokenizerFolder& folder) {
  const BpeFiles files = read_clip_files(folder);
  TokenizerFacts facts;
  Vocabulary vocabulary = make_vocabulary(files, &facts);
  return std::make_unique<Clip>(std::move(facts), std::move(vocabulary), AddedTokens(files.added, true));
}

std::vector<std::string> clip_texts(const TokenizerFolder& folder) { return token_texts(read_clip_files(folder)); }

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
