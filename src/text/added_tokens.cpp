// SPDX-License-Identifier: Apache-2.0
#include "src/text/added_tokens.h"

#include <algorithm>
#include <iterator>

#include "src/base/check.h"
#include "src/base/utf8.h"
#include "src/text/pieces.h"
#include "src/text/unicode_classes.h"

namespace bascule {
namespace {

// [begin, end) has no word character before or behind it.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) noexcept {
  std::size_t before = begin;
  while (before > 0 && (static_cast<unsigned char>(text[--before]) & 0xC0U) == 0x80U) continue;
  return (begin == 0 || !is_word_character(utf8_character(text, before).code_point)) &&
         (end == text.size() || !is_word_character(utf8_character(text, end).code_point));
}

}  // namespace

std::string said_of(const AddedToken& token) {
  return std::to_string(token.id) + (token.takes_space_before ? "<" : "") + (token.takes_space_after ? ">" : "") +
         (token.special ? "*" : "") + (token.normalized ? "~" : "") + (token.is_word ? "w" : "");
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, bool normalized) {
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(tokens_),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    const std::string &x = a.found_as(), &y = b.found_as();
    if (x.size() != y.size()) return x.size() > y.size();
    if (x != y) return x < y;
    return a.special != b.special ? a.special : a.id < b.id;  // normalising has made them equal
  });
  for (const AddedToken& token : tokens_) {
    BASCULE_CHECK(!token.found_as().empty());
    is_first_byte_[static_cast<unsigned char>(token.found_as()[0])] = true;
  }
}

AddedMatch AddedTokens::find(std::string_view text, const AddedMatch& previous) const noexcept {
  for (std::size_t i = previous.next; i < text.size(); ++i) {
    if (!is_first_byte_[static_cast<unsigned char>(text[i])]) continue;
    const auto token = std::find_if(tokens_.begin(), tokens_.end(), [&](const AddedToken& one) {
      return text.compare(i, one.found_as().size(), one.found_as()) == 0;
    });
    if (token == tokens_.end()) continue;
    const std::size_t after = i + token->found_as().size();
    AddedMatch match{i, after, token->id, after};
    if (token->is_word && !stands_alone(text, match.begin, match.end)) {
      i = match.end - 1;
      continue;
    }
    if (token->takes_space_before) match.begin = skip_space_back(text, i);
    match.begin = std::max(match.begin, previous.end);
    if (token->takes_space_after) match.end = skip_space(text, match.end);
    return match;
  }
  return AddedMatch{text.size(), text.size(), -1, text.size()};
}

}  // namespace bascule
