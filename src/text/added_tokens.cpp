// SPDX-License-Identifier: Apache-2.0
#include "src/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/text/pieces.h"

namespace bascule {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    if (a.text.size() != b.text.size()) return a.text.size() > b.text.size();
    return a.text != b.text ? a.text < b.text : a.id < b.id;
  });
  for (const AddedToken& token : tokens_) {
    BASCULE_CHECK(!token.text.empty());
    is_first_byte_[static_cast<unsigned char>(token.text[0])] = true;
  }
}

AddedMatch AddedTokens::find(std::string_view text, std::size_t place) const noexcept {
  for (std::size_t i = place; i < text.size(); ++i) {
    if (!is_first_byte_[static_cast<unsigned char>(text[i])]) continue;
    for (const AddedToken& token : tokens_) {
      if (text.compare(i, token.text.size(), token.text) != 0) continue;
      AddedMatch match{i, i + token.text.size(), token.id};
      if (token.takes_space_before) match.begin = place + skip_space_back(text.substr(place), i - place);
      if (token.takes_space_after) match.end = skip_space(text, match.end);
      return match;
    }
  }
  return AddedMatch{text.size(), text.size(), -1};
}

}  // namespace bascule
