// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_entities.h"

#include <algorithm>

#include "src/ask/finished_model.h"

namespace bascule {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

std::int64_t characters(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

// Whether the token continues the word of the token before it. Tokens that do not tell are in the same word where
// there is no space between them.
bool continues(std::string_view text, const PlacedToken& token, const TokenWords& words) {
  if (token.id == words.tokenizer.unknown_id()) return false;
  const std::string_view shown(text.data() + token.begin, token.end - token.begin);
  if (words.tokenizer.marks_continuation()) {
    const std::size_t id = static_cast<std::size_t>(token.id);
    return id < words.texts.size() && characters(words.texts[id]) != characters(shown);
  }
  if (token.begin == 0) return false;
  const bool is_space_before = text[token.begin - 1] == ' ';
  const bool is_space_there = token.begin < text.size() && text[token.begin] == ' ';
  return !is_space_before && !is_space_there;
}

// A tag without B- or I- goes on as I- does.
bool begins(std::string_view name) { return name.substr(0, 2) == "B-"; }
std::string_view rest_of(std::string_view name) {
  return begins(name) || name.substr(0, 2) == "I-" ? name.substr(2) : name;
}

std::string_view type_of(std::string_view name) {
  const std::size_t hyphen = name.find('-');
  return hyphen == std::string_view::npos ? name : name.substr(hyphen + 1);
}

}  // namespace

std::size_t find_words(Span<TaggedWord> words, std::string_view text, Span<const PlacedToken> tokens,
                       const TokenWords& how) noexcept {
  std::size_t count = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (count > 0 && continues(text, tokens[t], how)) {
      words[count - 1].end = tokens[t].end;
    } else {
      words[count++] = {tokens[t].begin, tokens[t].end, static_cast<std::int64_t>(t)};
    }
  }
  return count;
}

void tag_words(Span<TaggedWord> words, const float* logits, std::int64_t tags) noexcept {
  for (TaggedWord& word : words) {
    TokenOrClass best;
    most_probable(logits + word.token * tags, tags, {&best, 1});
    word.tag = best.id;
    word.probability = best.probability;
  }
}

// Bytes are asked for in order, or nearly.
std::int64_t EntityReader::characters_before(std::size_t byte) noexcept {
  if (byte < counted_) return characters_ - characters(text_.substr(byte, counted_ - byte));
  characters_ += characters(text_.substr(counted_, byte - counted_));
  counted_ = byte;
  return characters_;
}

bool EntityReader::next(TextEntity* entity) noexcept {
  while (first_ < words_.size()) {
    const std::size_t first = first_;
    const std::string_view name = names_[static_cast<std::size_t>(words_[first].tag)];
    double sum = words_[first].probability;
    for (++first_; first_ < words_.size(); ++first_) {
      const std::string_view tag = names_[static_cast<std::size_t>(words_[first_].tag)];
      if (begins(tag) || rest_of(tag) != rest_of(name)) break;
      sum += words_[first_].probability;
    }
    if (type_of(name) == "O") continue;
    const std::size_t begin = words_[first].begin, end = words_[first_ - 1].end;
    entity->type = type_of(name);
    entity->score = sum / static_cast<double>(first_ - first);
    entity->text = text_.substr(begin, std::max(begin, end) - begin);
    entity->start = characters_before(begin);
    entity->end = characters_before(end);
    return true;
  }
  return false;
}

std::vector<TextEntity> text_entities(const std::string& text, const std::vector<PlacedToken>& tokens,
                                      const float* logits, const std::vector<std::string>& names,
                                      const TokenWords& words) {
  std::vector<TaggedWord> tagged(tokens.size());
  tagged.resize(find_words(tagged, text, tokens, words));
  tag_words(tagged, logits, static_cast<std::int64_t>(names.size()));
  EntityReader reader(text, tagged, names);
  std::vector<TextEntity> entities;
  for (TextEntity one; reader.next(&one);) entities.push_back(one);
  return entities;
}

}  // namespace bascule
