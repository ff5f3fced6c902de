// SPDX-License-Identifier: Apache-2.0
// The interface of tokenizers and decoders, and prompts of a fixed length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"

namespace bascule {

// Token ids to text, as Transformers' decode() with skip_special_tokens=True gives it.

class TokenDecoder : NonCopyable {
 public:
  virtual ~TokenDecoder() = default;

  // Special tokens, and ids that no token has, are left out. Returns the text's bytes, of which those that fit are
  // written. Allocates nothing, so it may be used after the seal.
  virtual std::size_t decode_into(Span<const std::int32_t> ids, Span<char> text) const noexcept = 0;
  // The most that one token may add to a text.
  std::size_t most_bytes_of_token() const noexcept { return most_bytes_of_token_; }

  // Allocates.
  std::string decode(Span<const std::int32_t> ids) const {
    std::string text(ids.size() * most_bytes_of_token_, '\0');
    text.resize(decode_into(ids, {text.data(), text.size()}));
    return text;
  }

 protected:
  explicit TokenDecoder(std::size_t most_bytes_of_token) : most_bytes_of_token_(most_bytes_of_token) {}

 private:
  const std::size_t most_bytes_of_token_;
};

// Text to token ids, exactly as Transformers' tokenizer of the same folder gives them. A kind of tokenizer
// (tokenizer_kinds.h) finds the tokens of one text; special tokens, pairs of texts and truncation are here.
//
//   const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer("model");  // before the seal
//   std::vector<std::int32_t> ids = tokenizer->encode("two cats", 128);          // <s> ... </s>, at most 128 ids
//
// A loader worker that tokenises after the seal brings its own working memory, any alignment:
//
//   Span<std::byte> scratch = ...;  // tokenizer->scratch_bytes(longest_text_bytes)
//   BASCULE_TRY(tokenizer->encode_into({text}, ids, &encoded, scratch));

// A text, or a pair of texts that become one sequence.
struct Texts {
  std::string_view first;
  std::optional<std::string_view> second = std::nullopt;
};

// A sequence of tokens. Those from `second_begin` on have the type Tokenizer::second_type(), the others have type 0.
struct Encoded {
  std::int64_t tokens = 0;
  std::int64_t second_begin = 0;  // of one text: `tokens`
};

// A token of a text, and the bytes of the text that it stands for: whole characters.
struct PlacedToken {
  std::int32_t id = 0;
  std::size_t begin = 0, end = 0;
};

// The words of a text that is given word by word.
struct EncodedWords {
  std::int64_t tokens = 0;  // with the special ones
  std::int64_t cut = 0;     // words that have tokens, but none that fits
};

// Facts that every kind of tokenizer has.
struct TokenizerFacts {
  // The special tokens of a sequence: before its first text, between the texts of a pair, and at its end.
  std::vector<std::int32_t> before, between, after;
  std::int32_t second_type = 0;  // token type of a pair's second text and of `after` behind it
  std::int32_t pad_id = -1, mask_id = -1, unknown_id = -1;  // -1: there is none
  bool marks_continuation = false;                          // tokens that continue a word are written with "##"
  bool spaces_words_alone = false;                          // a word by itself has a space before it, a text has not
  std::vector<std::int32_t> special_ids;                    // of all special tokens, ascending: these are never masked
  std::int32_t vocabulary_size = 0;                         // one more than the greatest id
  std::uint64_t digest = 0;                                 // equal for tokenizers whose files say the same
};

// Where a kind of tokenizer puts the ids of a text: keeps those that fit, and counts all.
class TokenOutput {
 public:
  // counts_all: the number of all ids is wanted, also of those that do not fit.
  TokenOutput(Span<std::int32_t> ids, bool counts_all) noexcept : ids_(ids), counts_all_(counts_all) {}
  // Keeps the places in the text too, and counts all.
  explicit TokenOutput(Span<PlacedToken> placed) noexcept : counts_all_(true), keeps_places_(true), placed_(placed) {}
  // begin, end: of the token in the text, where keeps_places() and the kind of tokenizer knows them.
  void add(std::int32_t id, std::size_t begin = 0, std::size_t end = 0) noexcept {
    if (count_ < ids_.size()) ids_[count_] = id;
    if (count_ < placed_.size()) placed_[count_] = {id, begin, end};
    ++count_;
  }
  bool keeps_places() const noexcept { return keeps_places_; }
  // No further id is of use.
  bool is_done() const noexcept { return !counts_all_ && count_ >= ids_.size(); }
  std::size_t count() const noexcept { return count_; }
  std::size_t kept() const noexcept { return std::min(count_, ids_.size()); }

 private:
  Span<std::int32_t> ids_;
  std::size_t count_ = 0;
  bool counts_all_, keeps_places_ = false;
  Span<PlacedToken> placed_;
};

class Tokenizer : NonCopyable {
 public:
  // The second detail of the status kBadSample: the text is not UTF-8; a part of it needs more scratch.
  static constexpr std::int64_t kNotUtf8 = 0, kPieceTooLong = 1;

  virtual ~Tokenizer() = default;

  // The tokens of a text, or of a pair, with the special ones. max_length (0: no limit, else room for the special
  // tokens) cuts as encode_into() does. Throws Error (kData) naming the first byte that is not UTF-8.
  std::vector<std::int32_t> encode(const Texts& texts, std::int64_t max_length = 0) const;
  std::vector<std::int32_t> encode(std::string_view text, std::int64_t max_length = 0) const {
    return encode(Texts{text}, max_length);
  }

  // The same into ids[0, encoded->tokens), where ids.size() (at least special_tokens()) is the maximal length. A pair
  // that does not fit is cut as Transformers' "longest_first" does. After the seal: allocates nothing. ids and texts do
  // not overlap. *encoded is written only if the status is ok. kBadSample: see above; the first detail is the place in
  // the text. kPieceTooLong cannot be where the scratch is made for the longest text.
  Status encode_into(const Texts& texts, Span<std::int32_t> ids, Encoded* encoded,
                     Span<std::byte> scratch) const noexcept;

  // The tokens of a text that is given as words, each followed by a zero byte, with the special ones, as Transformers
  // gives them with is_split_into_words = True, and for RoBERTa add_prefix_space = True. What does not fit into ids is
  // cut off. words_of: for each id the number of its word, -1 for special tokens; as many as ids. counts_cut: sets
  // EncodedWords::cut, for which all words are tokenised. Else as encode_into().
  Status encode_words_into(std::string_view words, Span<std::int32_t> ids, Span<std::int32_t> words_of, bool counts_cut,
                           EncodedWords* encoded, Span<std::byte> scratch) const noexcept;

  // The tokens of a text without special ones, with their places as Transformers gives them: of WordPiece, and of
  // RoBERTa's BPE without the spaces at their ends; other kinds know none. Throws Error (kData) naming the first byte
  // that is not UTF-8.
  std::vector<PlacedToken> place_tokens(std::string_view text) const;
  // The same after the seal, those that fit into `placed`; *count: of all. Allocates nothing. kBadSample: see above.
  // scratch: place_scratch_bytes().
  Status place_tokens_into(std::string_view text, Span<PlacedToken> placed, std::size_t* count,
                           Span<std::byte> scratch) const noexcept;

  // Working memory for texts of at most this many bytes.
  virtual std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept = 0;
  // The same where places are kept.
  virtual std::size_t place_scratch_bytes(std::size_t longest_text_bytes) const noexcept {
    return scratch_bytes(longest_text_bytes);
  }
  // The same for words of at most this many bytes together.
  virtual std::size_t word_scratch_bytes(std::size_t longest_text_bytes) const noexcept {
    return scratch_bytes(longest_text_bytes);
  }

  std::int64_t special_tokens(bool is_pair) const noexcept {
    return static_cast<std::int64_t>(facts_.before.size() + facts_.after.size() +
                                     (is_pair ? facts_.between.size() : 0));
  }
  // The special tokens before a sequence's first text, between the texts of a pair, and at its end.
  Span<const std::int32_t> before() const noexcept { return facts_.before; }
  Span<const std::int32_t> between() const noexcept { return facts_.between; }
  Span<const std::int32_t> after() const noexcept { return facts_.after; }
  std::int32_t second_type() const noexcept { return facts_.second_type; }
  std::int32_t pad_id() const noexcept { return facts_.pad_id; }
  std::int32_t mask_id() const noexcept { return facts_.mask_id; }
  std::int32_t unknown_id() const noexcept { return facts_.unknown_id; }
  bool marks_continuation() const noexcept { return facts_.marks_continuation; }
  bool spaces_words_alone() const noexcept { return facts_.spaces_words_alone; }
  std::int32_t vocabulary_size() const noexcept { return facts_.vocabulary_size; }
  Span<const std::int32_t> special_ids() const noexcept { return facts_.special_ids; }
  std::uint64_t digest() const noexcept { return facts_.digest; }

 protected:
  explicit Tokenizer(TokenizerFacts facts) : facts_(std::move(facts)) {}

 private:
  // Adds the ids of a text, which is UTF-8, in order, until output.is_done(). After the seal; may use all of scratch.
  virtual Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept = 0;
  // The same for a word by itself.
  virtual Status tokenize_word(std::string_view word, TokenOutput& output, Span<std::byte> scratch) const noexcept {
    return tokenize(word, output, scratch);
  }
  Status tokenize_checked(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept;
  friend class LowerCased;

  TokenizerFacts facts_;
};

// The tokenizer behind a step that writes each text in lower case, character by character. It knows no places.
std::unique_ptr<const Tokenizer> lower_cased(std::unique_ptr<const Tokenizer> tokenizer);

// A prompt as the text encoder of a pipeline wants it: always the same number of ids. Before the seal.
//
//   const EncodedPrompt prompt = encode_prompt(*tokenizer, *decoder, "a cat asleep on a radiator", 77);
//   if (prompt.tokens_cut > 0) say(prompt.text_cut);

struct EncodedPrompt {
  std::vector<std::int32_t> ids;  // special tokens around the text, cut on the right; then the tokenizer's pad_id()
  std::int64_t tokens_cut = 0;    // the text's tokens that did not fit
  std::string text_cut;           // what they say, decoded; may be empty where they are part of a character
};

// Exactly `length` ids. Both are of one folder (load_tokenizer(), load_token_decoder()); length has room for the
// special tokens, and a pad token exists. Throws Error (kData) naming the first byte that is not UTF-8.
EncodedPrompt encode_prompt(const Tokenizer& tokenizer, const TokenDecoder& decoder, std::string_view prompt,
                            std::int64_t length);

}  // namespace bascule
