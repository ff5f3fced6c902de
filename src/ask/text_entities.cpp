// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_entities.h"

#include <algorithm>
#include <string_view>

#include "src/ask/logits.h"
#include "src/json/json.h"

namespace bascule {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

std::int64_t characters(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

// A word: the tokens that begin with one that does not continue another.
struct TaggedWord {
  std::size_t begin = 0, end = 0;  // bytes of the text
  std::int64_t tag = 0;
  double probability = 0.0;
};

// Whether the token continues the word of the token before it. Tokens that do not tell are in the same word where
// there is no space between them.
bool continues(const std::string& text, const PlacedToken& token, const TokenWords& words) {
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
struct TagName {
  bool begins = false;
  std::string rest;
};
TagName parts_of(const std::string& name) {
  const bool has_prefix = name.rfind("B-", 0) == 0 || name.rfind("I-", 0) == 0;
  return {name.rfind("B-", 0) == 0, has_prefix ? name.substr(2) : name};
}

std::string type_of(const std::string& name) {
  const std::size_t hyphen = name.find('-');
  return hyphen == std::string::npos ? name : name.substr(hyphen + 1);
}

// [first, last] of the words.
TextEntity entity_of(const std::string& text, const std::vector<TaggedWord>& words, std::size_t first, std::size_t last,
                     const std::string& type) {
  TextEntity entity;
  entity.type = type;
  for (std::size_t i = first; i <= last; ++i) entity.score += words[i].probability;
  entity.score /= static_cast<double>(last - first + 1);
  const std::size_t begin = words[first].begin, end = std::max(begin, words[last].end);
  entity.text = text.substr(begin, end - begin);
  entity.start = characters(std::string_view(text).substr(0, begin));
  entity.end = characters(std::string_view(text).substr(0, words[last].end));
  return entity;
}

}  // namespace

std::vector<TextEntity> text_entities(const std::string& text, const std::vector<PlacedToken>& tokens,
                                      const float* logits, const std::vector<std::string>& names,
                                      const TokenWords& words) {
  std::vector<TaggedWord> tagged;
  const std::int64_t classes = static_cast<std::int64_t>(names.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (!tagged.empty() && continues(text, tokens[t], words)) {
      tagged.back().end = tokens[t].end;
      continue;
    }
    const TokenOrClass best = most_probable(logits + static_cast<std::int64_t>(t) * classes, classes, 1).front();
    tagged.push_back({tokens[t].begin, tokens[t].end, best.id, best.probability});
  }
  std::vector<TextEntity> entities;
  for (std::size_t first = 0, next = 0; first < tagged.size(); first = next) {
    const std::string& name = names[static_cast<std::size_t>(tagged[first].tag)];
    for (next = first + 1; next < tagged.size(); ++next) {
      const TagName tag = parts_of(names[static_cast<std::size_t>(tagged[next].tag)]);
      if (tag.begins || tag.rest != parts_of(name).rest) break;
    }
    if (type_of(name) != "O") entities.push_back(entity_of(text, tagged, first, next - 1, type_of(name)));
  }
  return entities;
}

Json entities_json(const std::vector<TextEntity>& entities) {
  Json all = Json::array();
  for (const TextEntity& one : entities) {
    all.push_back(
        {{"entity", one.type}, {"score", one.score}, {"text", one.text}, {"start", one.start}, {"end", one.end}});
  }
  return all;
}

}  // namespace bascule
