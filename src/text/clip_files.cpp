// SPDX-License-Identifier: Apache-2.0
#include "src/text/clip_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/clip_text.h"
#include "src/text/token_id.h"

namespace bascule {
namespace {

constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                  "sep_token", "cls_token", "mask_token"};
using Roles = std::array<AddedToken, std::size(kRoles)>;  // without a text: there is no such token

// The pattern as Transformers 5 writes it, and as older folders have it; Transformers 5 reads both as the first.
constexpr const char* kPatterns[] = {
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)"};

// The steps of a normalizer or a pre_tokenizer, which is a Sequence of the given types.
const Json& sequence_of(const Json& document, const char* key, const char* list, const std::vector<std::string>& types,
                        const std::string& where) {
  const std::string type = type_of(document, key, where);
  if (type != "Sequence") refuse_bpe(where, std::string("the ") + key + " is \"" + type + "\"");
  const Json& steps = get_array(get_object(document, key, where), list, where);
  bool is_same = steps.size() == types.size();
  for (std::size_t i = 0; is_same && i < types.size(); ++i) is_same = get_string(steps[i], "type", where) == types[i];
  if (!is_same) refuse_bpe(where, std::string("the steps of the ") + key + " are not CLIP's");
  return steps;
}

std::string pattern_of(const Json& step, const std::string& where) {
  return get_string(get_object(step, "pattern", where), "Regex", where);
}

void check_processing(const Json& document, const std::string& where) {
  const Json& normalizers = sequence_of(document, "normalizer", "normalizers", {"NFC", "Replace", "Lowercase"}, where);
  if (pattern_of(normalizers[1], where) != R"(\s+)" || get_string(normalizers[1], "content", where) != " ")
    refuse_bpe(where, "the normalizer does not make one space of white space");
  const Json& cutters = sequence_of(document, "pre_tokenizer", "pretokenizers", {"Split", "ByteLevel"}, where);
  const std::string pattern = pattern_of(cutters[0], where);
  if (std::find(std::begin(kPatterns), std::end(kPatterns), pattern) == std::end(kPatterns) ||
      get_string(cutters[0], "behavior", where) != "Removed" || !get_bool(cutters[0], "invert", where))
    refuse_bpe(where, "the pre_tokenizer's pattern is not CLIP's");
  if (!get_bool(cutters[1], "use_regex", where, true) || get_bool(cutters[1], "add_prefix_space", where, true))
    refuse_bpe(where, "the pre_tokenizer's ByteLevel is not CLIP's");
  const std::string ending = type_of(document, "post_processor", where);
  if (ending != "RobertaProcessing") refuse_bpe(where, "the post_processor is \"" + ending + "\"");
}

// Special tokens are looked for in the text as it is written where nothing else is said.
AddedToken role_token(const Json& value, const std::string& role, const std::string& where) {
  AddedToken token;
  if (value.is_object()) {
    token = added_token(value, where);
    token.special = true;
    token.normalized = get_bool(value, "normalized", where, false);
  } else if (value.is_string()) {
    token.text = value.string();
  } else {
    throw Error{ErrorKind::kData, where, role + " is neither a string nor an object"};
  }
  if (token.text.empty()) throw Error{ErrorKind::kData, where, role + " is empty"};
  return token;
}

bool has_token(const Roles& roles, const std::string& text) {
  return std::any_of(roles.begin(), roles.end(), [&](const AddedToken& role) { return role.text == text; });
}

// Tokens that a file lists with their ids, by id.
using Listed = std::map<std::int32_t, AddedToken>;

void list_token(const Json& id, const Json& value, const Roles& roles, const std::string& where, Listed* listed) {
  AddedToken token = added_token(value, where);
  token.special = get_bool(value, "special", where, false) || has_token(roles, token.text);
  token.normalized = get_bool(value, "normalized", where, !token.special);
  token.id = token_id(id, token.text, where);
  (*listed)[token.id] = std::move(token);
}

// added_tokens.json: an object of tokens and ids.
void list_added_tokens(const std::string& where, const Roles& roles, Listed* listed) {
  const Json document = read_json_file(where);
  if (!document.is_object()) throw Error{ErrorKind::kData, where, "not an object of tokens and ids"};
  for (const auto& [text, id] : document.items()) {
    const bool is_special = has_token(roles, text);
    const std::int32_t number = token_id(id, text, where);
    (*listed)[number] = AddedToken{text, number, false, false, is_special, !is_special};
  }
}

// What a folder says beside the vocabulary. Where tokenizer_config.json lists the added tokens, the lists of other
// files and special_tokens_map.json do not count.
struct SideFiles {
  Roles roles;
  std::vector<AddedToken> further;  // special tokens without a role
  Listed listed;
};

void read_special(const Json& map, const std::string& where, SideFiles* side) {
  for (std::size_t i = 0; i < std::size(kRoles); ++i) {
    const Json* const value = find_member(map, kRoles[i], where);
    if (value != nullptr) side->roles[i] = role_token(*value, kRoles[i], where);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (find_member(map, key, where) == nullptr) continue;
    for (const Json& value : get_array(map, key, where)) side->further.push_back(role_token(value, key, where));
  }
}

SideFiles read_side_files(const TokenizerFolder& folder) {
  SideFiles side;
  side.roles[0].text = "<|startoftext|>";
  for (std::size_t i = 1; i < 4; ++i) side.roles[i].text = "<|endoftext|>";
  const std::string path = folder.path + "/";
  if (folder.has("tokenizer_config.json")) {
    const std::string where = path + "tokenizer_config.json";
    const Json config = read_json_file(where);
    read_special(config, where, &side);
    if (find_member(config, "added_tokens_decoder", where) != nullptr) {
      for (const auto& [id, value] : get_object(config, "added_tokens_decoder", where).items())
        list_token(parse_json(id, where + ": added_tokens_decoder"), value, side.roles, where, &side.listed);
      return side;
    }
  }
  if (folder.has("special_tokens_map.json")) {
    const std::string where = path + "special_tokens_map.json";
    read_special(read_json_file(where), where, &side);
  }
  if (folder.has("added_tokens.json")) list_added_tokens(path + "added_tokens.json", side.roles, &side.listed);
  if (!folder.document.is_null() && find_member(folder.document, "added_tokens", folder.where) != nullptr) {
    for (const Json& value : get_array(folder.document, "added_tokens", folder.where)) {
      const Json* const id = value.find("id");
      list_token(id != nullptr ? *id : Json(), value, side.roles, folder.where, &side.listed);
    }
  }
  return side;
}

// Listed tokens first; one with a role or without is added where it is not listed, the later of equal texts. The
// vocabulary's id counts.
void add_tokens(const SideFiles& side, BpeFiles* files) {
  const auto add = [files](AddedToken token) {
    const auto known = files->tokens.find(token.text);
    if (known != files->tokens.end()) token.id = known->second;
    if (token.normalized) token.text = normalised_clip_text(token.text);
    put_added(std::move(token), files->where, files);
  };
  for (const auto& [id, token] : side.listed) add(token);
  const auto add_unlisted = [&](const AddedToken& token) {
    const bool is_listed = std::any_of(side.listed.begin(), side.listed.end(),
                                       [&](const auto& entry) { return entry.second.text == token.text; });
    if (!is_listed && !token.text.empty()) add(token);
  };
  for (const AddedToken& role : side.roles) add_unlisted(role);
  for (const AddedToken& token : side.further) {
    add_unlisted(token);
    if (files->tokens.count(token.text) == 0)
      throw Error{ErrorKind::kData, files->where, "the vocabulary has no token \"" + token.text + "\""};
  }
}

}  // namespace

BpeFiles read_clip_files(const TokenizerFolder& folder) {
  BpeFiles files;
  if (folder.document.is_null()) {
    read_vocabulary_and_merges(folder, &files);
  } else {
    check_processing(folder.document, folder.where);
    read_bpe_model(folder, &files);
  }
  files.word_end = folder.word_end;
  const SideFiles side = read_side_files(folder);
  add_tokens(side, &files);
  files.bos = side.roles[0].text;
  files.eos = side.roles[1].text;
  files.unk = files.unknown_byte = side.roles[2].text;
  files.pad = side.roles[3].text;
  files.mask = side.roles[6].text;
  return files;
}

}  // namespace bascule
