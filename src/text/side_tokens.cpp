// SPDX-License-Identifier: Apache-2.0
#include "src/text/side_tokens.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/byte_level_bpe.h"
#include "src/text/unicode_tables.h"

namespace bascule {

std::int32_t token_id(const Json& value, const std::string& token, const std::string& where) {
  if (value.is_integer() && value.integer() >= 0 && value.integer() < kMostTokenIds)
    return static_cast<std::int32_t>(value.integer());
  throw Error{ErrorKind::kData, where, "the id of token \"" + token + "\" is " + json_text(value),
              "ids are whole numbers from 0 to " + std::to_string(kMostTokenIds - 1)};
}

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

namespace {

using Roles = std::array<AddedToken, 7>;

constexpr const char* kRoleKeys[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                     "sep_token", "cls_token", "mask_token"};

bool has_role(const Roles& roles, const std::string& text) {
  return std::any_of(roles.begin(), roles.end(), [&](const AddedToken& role) { return role.text == text; });
}

void list_token(const Json& id, const Json& value, const std::string& where, SideTokens* side) {
  AddedToken token = added_token(value, where);
  token.special = get_bool(value, "special", where, false) || has_role(side->roles, token.text);
  token.normalized = get_bool(value, "normalized", where, !token.special);
  token.id = token_id(id, token.text, where);
  side->listed[token.id] = std::move(token);
}

// added_tokens.json: an object of tokens and ids.
void list_added_tokens(const std::string& where, SideTokens* side) {
  const Json document = read_json_file(where);
  if (!document.is_object()) throw Error{ErrorKind::kData, where, "not an object of tokens and ids"};
  for (const auto& [text, id] : document.items()) {
    AddedToken token;
    token.text = text;
    token.id = token_id(id, text, where);
    token.special = has_role(side->roles, text);
    token.normalized = !token.special;
    side->listed[token.id] = std::move(token);
  }
}

void read_special(const Json& map, const std::string& where, SideTokens* side) {
  for (std::size_t i = 0; i < std::size(kRoleKeys); ++i) {
    const Json* const value = find_member(map, kRoleKeys[i], where);
    if (value != nullptr) side->roles[i] = special_token(*value, kRoleKeys[i], where);
  }
  for (AddedToken& token : further_tokens(map, where)) side->further.push_back(std::move(token));
}

void put_added(AddedToken token, std::vector<AddedToken>* tokens) {
  const auto same =
      std::find_if(tokens->begin(), tokens->end(), [&](const AddedToken& other) { return other.text == token.text; });
  if (same == tokens->end()) {
    tokens->push_back(std::move(token));
  } else {
    *same = std::move(token);
  }
}

}  // namespace

AddedToken added_token(const Json& value, const std::string& where) {
  AddedToken token;
  token.text = get_string(value, "content", where);
  if (token.text.empty()) throw Error{ErrorKind::kData, where, "an added token is empty"};
  token.takes_space_before = get_bool(value, "lstrip", where, false);
  token.takes_space_after = get_bool(value, "rstrip", where, false);
  token.is_word = get_bool(value, "single_word", where, false);
  token.special = get_bool(value, "special", where, true);
  token.normalized = get_bool(value, "normalized", where, !token.special);
  return token;
}

// Special tokens are looked for in the text as it is written where nothing else is said.
AddedToken special_token(const Json& value, const std::string& key, const std::string& where) {
  AddedToken token;
  if (value.is_object()) {
    token = added_token(value, where);
    token.special = true;
    token.normalized = get_bool(value, "normalized", where, false);
  } else if (value.is_string()) {
    token.text = value.string();
  } else {
    throw Error{ErrorKind::kData, where, key + " is neither a string nor an object"};
  }
  if (token.text.empty()) throw Error{ErrorKind::kData, where, key + " is empty"};
  return token;
}

std::vector<AddedToken> further_tokens(const Json& map, const std::string& where) {
  std::vector<AddedToken> tokens;
  const Json* const extra = find_member(map, "extra_special_tokens", where);
  const bool has_extra = extra != nullptr && !(extra->is_array() && extra->size() == 0);
  const char* const list = has_extra ? "extra_special_tokens" : "additional_special_tokens";
  if (has_extra && extra->is_object()) {
    for (const auto& [name, value] : extra->items()) tokens.push_back(special_token(value, name, where));
  } else if (find_member(map, list, where) != nullptr) {
    for (const Json& value : get_array(map, list, where)) tokens.push_back(special_token(value, list, where));
  }
  constexpr std::string_view kEnd = "_token";
  for (const auto& [key, value] : map.items()) {
    const bool is_token = key.size() > kEnd.size() && key.compare(key.size() - kEnd.size(), kEnd.size(), kEnd) == 0 &&
                          (value.is_string() || value.is_object());
    if (is_token && std::find(std::begin(kRoleKeys), std::end(kRoleKeys), key) == std::end(kRoleKeys))
      tokens.push_back(special_token(value, key, where));
  }
  return tokens;
}

SideTokens read_side_tokens(const TokenizerFolder& folder, const std::map<TokenRole, const char*>& names) {
  SideTokens side;
  for (const auto& [role, name] : names) side.roles[role].text = name;
  const std::string path = folder.path + "/";
  if (folder.has("tokenizer_config.json")) {
    const std::string where = path + "tokenizer_config.json";
    const Json config = read_json_file(where);
    read_special(config, where, &side);
    if (find_member(config, "added_tokens_decoder", where) != nullptr) {
      for (const auto& [id, value] : get_object(config, "added_tokens_decoder", where).items())
        list_token(parse_json(id, where + ": added_tokens_decoder"), value, where, &side);
      return side;
    }
  }
  if (folder.has("special_tokens_map.json")) {
    const std::string where = path + "special_tokens_map.json";
    read_special(read_json_file(where), where, &side);
  }
  if (folder.has("added_tokens.json")) list_added_tokens(path + "added_tokens.json", &side);
  if (!folder.document.is_null() && find_member(folder.document, "added_tokens", folder.where) != nullptr) {
    for (const Json& value : get_array(folder.document, "added_tokens", folder.where)) {
      const Json* const id = value.find("id");
      list_token(id != nullptr ? *id : Json(), value, folder.where, &side);
    }
  }
  return side;
}

std::int32_t id_in(const TokenIds& vocabulary, const std::string& token) {
  const auto found = vocabulary.find(token);
  return found == vocabulary.end() ? -1 : found->second;
}

std::int32_t id_in(const TokenIds& vocabulary, const std::vector<AddedToken>& added, const std::string& token) {
  const std::int32_t id = id_in(vocabulary, token);
  const auto found = std::find_if(added.begin(), added.end(), [&](const AddedToken& one) { return one.text == token; });
  return id >= 0 || found == added.end() ? id : found->id;
}

std::vector<AddedToken> added_tokens(const SideTokens& side, std::size_t vocabulary_size, const TokenIds& vocabulary,
                                     const std::string& where) {
  std::vector<AddedToken> tokens;
  std::int32_t next =
      static_cast<std::int32_t>(vocabulary_size);  // the id of a token that the vocabulary does not have
  for (const auto& [id, listed] : side.listed) {
    AddedToken token = listed;
    token.id = id_in(vocabulary, token.text);
    if (token.id < 0) token.id = next++;
    if (token.id != id) {
      throw Error{ErrorKind::kData, where,
                  "the added token \"" + token.text + "\" has id " + std::to_string(id) +
                      ", but Transformers gives it " + std::to_string(token.id),
                  "added tokens follow the vocabulary without gaps"};
    }
    put_added(std::move(token), &tokens);
  }
  const auto add_unlisted = [&](AddedToken token) {
    const bool is_listed = std::any_of(side.listed.begin(), side.listed.end(),
                                       [&](const auto& entry) { return entry.second.text == token.text; });
    if (is_listed || token.text.empty()) return;
    token.id = id_in(vocabulary, token.text);
    if (token.id < 0) throw Error{ErrorKind::kData, where, "the vocabulary has no token \"" + token.text + "\""};
    put_added(std::move(token), &tokens);
  };
  for (const AddedToken& role : side.roles) add_unlisted(role);
  for (const AddedToken& token : side.further) add_unlisted(token);
  return tokens;
}

std::vector<std::int32_t> special_ids_of(const std::vector<AddedToken>& tokens) {
  std::set<std::int32_t> ids;
  for (const AddedToken& token : tokens) {
    if (token.special) ids.insert(token.id);
  }
  return {ids.begin(), ids.end()};
}

void normalise_added(const std::function<std::string(std::string_view)>& normalise, const std::string& where,
                     std::vector<AddedToken>* tokens) {
  for (AddedToken& token : *tokens) {
    if (!token.normalized) continue;
    token.normalised = normalise(token.text);
    if (token.normalised.empty())
      throw Error{ErrorKind::kData, where, "normalising leaves nothing of the added token \"" + token.text + "\""};
  }
}

}  // namespace bascule
