// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer.h"

#include "src/base/check.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/unicode_tables.h"

namespace bascule {
namespace {

// How many tokens of the first text stay where both texts have room for `room`. The longer one is cut, the second of
// two of equal length, until it is as short as the other; then both are halved.
std::size_t first_kept(std::size_t first, std::size_t second, std::size_t room) noexcept {
  if (first + second <= room) return first;
  const std::size_t shorter = std::min(first, second);
  const std::size_t kept_of_shorter = 2 * shorter <= room ? shorter : room / 2;
  return first > second ? room - kept_of_shorter : kept_of_shorter;
}

}  // namespace

Status Tokenizer::tokenize_checked(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept {
  const std::size_t invalid = first_invalid_utf8(text);
  if (invalid < text.size()) return Status{StatusCode::kBadSample, {static_cast<std::int64_t>(invalid), kNotUtf8}};
  return tokenize(text, output, scratch);
}

Status Tokenizer::encode_into(const Texts& texts, Span<std::int32_t> ids, Encoded* encoded,
                              Span<std::byte> scratch) const noexcept {
  const bool is_pair = texts.second.has_value();
  const std::size_t special = static_cast<std::size_t>(special_tokens(is_pair));
  BASCULE_CHECK(ids.size() >= special);
  const std::size_t room = ids.size() - special;
  std::size_t end = 0;
  const auto put = [&](const std::vector<std::int32_t>& tokens) {
    std::copy(tokens.begin(), tokens.end(), ids.data() + end);
    end += tokens.size();
  };
  put(facts_.before);
  TokenOutput first(ids.subspan(end, room), is_pair);
  BASCULE_TRY(tokenize_checked(texts.first, first, scratch));
  std::size_t kept = first.kept(), second_begin = 0;
  if (is_pair) {
    // As if the first text were whole; where it is not, the second one begins earlier and has more room.
    const auto place_second = [&](bool counts_all) {
      return TokenOutput(ids.subspan(end + kept + facts_.between.size(), room - kept), counts_all);
    };
    TokenOutput second = place_second(true);
    BASCULE_TRY(tokenize_checked(*texts.second, second, scratch));
    const std::size_t kept_after = first_kept(first.count(), second.count(), room);
    if (kept_after < kept) {
      kept = kept_after;
      second = place_second(false);
      BASCULE_TRY(tokenize_checked(*texts.second, second, scratch));
    }
    end += kept;
    put(facts_.between);
    second_begin = end;
    kept = second.kept();
  }
  end += kept;
  put(facts_.after);
  *encoded = {static_cast<std::int64_t>(end), static_cast<std::int64_t>(is_pair ? second_begin : end)};
  return ok_status();
}

Status Tokenizer::encode_words_into(std::string_view words, Span<std::int32_t> ids, Span<std::int32_t> words_of,
                                    bool counts_cut, EncodedWords* encoded, Span<std::byte> scratch) const noexcept {
  BASCULE_CHECK(static_cast<std::int64_t>(ids.size()) >= special_tokens(false) && words_of.size() == ids.size());
  const std::size_t begin = facts_.before.size(), room = ids.size() - begin - facts_.after.size();
  const std::size_t invalid = first_invalid_utf8(words);
  if (invalid < words.size()) return Status{StatusCode::kBadSample, {static_cast<std::int64_t>(invalid), kNotUtf8}};
  std::fill(words_of.begin(), words_of.end(), -1);
  std::copy(facts_.before.begin(), facts_.before.end(), ids.data());
  TokenOutput output(ids.subspan(begin, room), counts_cut);
  std::int64_t cut = 0;
  for (std::int32_t word = 0; !words.empty() && !output.is_done(); ++word) {
    const std::size_t end = std::min(words.find('\0'), words.size() - 1);
    const std::size_t first = output.kept(), all = output.count();
    BASCULE_TRY(tokenize_word(words.substr(0, end), output, scratch));
    std::fill(words_of.begin() + begin + first, words_of.begin() + begin + output.kept(), word);
    if (output.count() > all && output.kept() == first) ++cut;
    words.remove_prefix(end + 1);
  }
  const std::size_t last = begin + output.kept();
  std::copy(facts_.after.begin(), facts_.after.end(), ids.data() + last);
  *encoded = {static_cast<std::int64_t>(last + facts_.after.size()), cut};
  return ok_status();
}

std::vector<PlacedToken> Tokenizer::place_tokens(std::string_view text) const {
  std::vector<std::byte> scratch(place_scratch_bytes(text.size()));
  std::vector<PlacedToken> placed(text.size());
  std::size_t count = 0;
  // Few texts have more tokens than bytes.
  while (true) {
    const Status status = place_tokens_into(text, placed, &count, scratch);
    if (!status.ok()) {
      throw Error{ErrorKind::kData, "text", "byte " + std::to_string(status.detail[0]) + " is not UTF-8",
                  "write the text in UTF-8"};
    }
    const bool is_whole = count <= placed.size();
    placed.resize(count);
    if (is_whole) return placed;
  }
}

Status Tokenizer::place_tokens_into(std::string_view text, Span<PlacedToken> placed, std::size_t* count,
                                    Span<std::byte> scratch) const noexcept {
  TokenOutput output(placed);
  BASCULE_TRY(tokenize_checked(text, output, scratch));
  *count = output.count();
  const auto is_within = [&](std::size_t place) {
    return place < text.size() && (static_cast<unsigned char>(text[place]) & 0xc0U) == 0x80U;
  };
  for (PlacedToken& token : placed.first(std::min(*count, placed.size()))) {
    while (token.begin > 0 && is_within(token.begin)) --token.begin;
    while (token.begin < token.end && is_within(token.end)) ++token.end;
  }
  return ok_status();
}

std::vector<std::int32_t> Tokenizer::encode(const Texts& texts, std::int64_t max_length) const {
  const std::int64_t special = special_tokens(texts.second.has_value());
  BASCULE_CHECK(max_length == 0 || max_length >= special);
  const std::size_t longer = std::max(texts.first.size(), texts.second.value_or(std::string_view()).size());
  const std::size_t limit = max_length == 0 ? SIZE_MAX : static_cast<std::size_t>(max_length);
  std::vector<std::byte> scratch(scratch_bytes(longer));
  std::vector<std::int32_t> ids;
  Encoded encoded;
  // Few texts have more tokens than bytes. A sequence that fills all of ids may have been cut there.
  for (std::size_t size = 2 * longer + static_cast<std::size_t>(special) + 1;
       ids.size() < limit && static_cast<std::size_t>(encoded.tokens) == ids.size(); size *= 2) {
    ids.resize(std::min(size, limit));
    const Status status = encode_into(texts, ids, &encoded, scratch);
    if (!status.ok()) {
      throw Error{ErrorKind::kData, "text", "byte " + std::to_string(status.detail[0]) + " is not UTF-8",
                  "write the text in UTF-8"};
    }
  }
  ids.resize(static_cast<std::size_t>(encoded.tokens));
  return ids;
}

class LowerCased final : public Tokenizer {
 public:
  explicit LowerCased(std::unique_ptr<const Tokenizer> inner) : Tokenizer(facts_of(*inner)), inner_(std::move(inner)) {}
  std::size_t scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return lowered_bytes(longest_text_bytes) + inner_->scratch_bytes(lowered_bytes(longest_text_bytes));
  }
  std::size_t word_scratch_bytes(std::size_t longest_text_bytes) const noexcept override {
    return lowered_bytes(longest_text_bytes) + inner_->word_scratch_bytes(lowered_bytes(longest_text_bytes));
  }

 private:
  static TokenizerFacts facts_of(const Tokenizer& inner) {
    TokenizerFacts facts = inner.facts_;
    Digest digest;
    digest.add_number(facts.digest);
    digest.add_number(1);  // lower case
    facts.digest = digest.value();
    return facts;
  }

  // A character of 2 bytes may become two characters, of 3 bytes together; behind it scratch keeps its alignment.
  static std::size_t lowered_bytes(std::size_t text_bytes) noexcept { return align_up(2 * text_bytes, kCacheLine); }

  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte> scratch) const noexcept override {
    std::string_view lowered;
    BASCULE_TRY(lower(text, &lowered, &scratch));
    return inner_->tokenize(lowered, output, scratch);
  }
  Status tokenize_word(std::string_view word, TokenOutput& output, Span<std::byte> scratch) const noexcept override {
    std::string_view lowered;
    BASCULE_TRY(lower(word, &lowered, &scratch));
    return inner_->tokenize_word(lowered, output, scratch);
  }

  // Takes from scratch what the text needs.
  static Status lower(std::string_view text, std::string_view* lowered, Span<std::byte>* scratch) noexcept {
    const std::size_t room = lowered_bytes(text.size());
    if (scratch->size() < room) return Status{StatusCode::kBadSample, {0, kPieceTooLong}};
    char* const out = reinterpret_cast<char*>(scratch->data());
    std::size_t bytes = 0;
    for (std::size_t place = 0; place < text.size();) {
      const Utf8Character character = utf8_character(text, place);
      const CodePointPair lower = lower_case(character.code_point);
      bytes += put_utf8(lower.first, out + bytes);
      if (lower.second != 0) bytes += put_utf8(lower.second, out + bytes);
      place += character.bytes;
    }
    *lowered = {out, bytes};
    *scratch = scratch->subspan(room, scratch->size() - room);
    return ok_status();
  }

  const std::unique_ptr<const Tokenizer> inner_;
};

std::unique_ptr<const Tokenizer> lower_cased(std::unique_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<LowerCased>(std::move(tokenizer));
}

EncodedPrompt encode_prompt(const Tokenizer& tokenizer, const TokenDecoder& decoder, std::string_view prompt,
                            std::int64_t length) {
  BASCULE_CHECK(tokenizer.pad_id() >= 0);
  EncodedPrompt encoded;
  encoded.ids = tokenizer.encode(prompt, length);
  const std::vector<std::int32_t> whole = tokenizer.encode(prompt);
  if (whole.size() > encoded.ids.size()) {
    const std::size_t cut = whole.size() - encoded.ids.size();
    const Span<const std::int32_t> all(whole);
    encoded.tokens_cut = static_cast<std::int64_t>(cut);
    encoded.text_cut = decoder.decode(all.subspan(encoded.ids.size() - tokenizer.after().size(), cut));
  }
  encoded.ids.resize(static_cast<std::size_t>(length), tokenizer.pad_id());
  return encoded;
}

}  // namespace bascule
