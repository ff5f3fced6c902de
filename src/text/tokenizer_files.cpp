// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>

#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/json/json.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::kData, where, what, "the only BPE tokenizer supported is RoBERTa's"};
}

std::int32_t token_id(const Json& value, const std::string& token, const std::string& where) {
  if (!value.is_integer() || value.integer() < 0 || value.integer() >= std::numeric_limits<std::int32_t>::max()) {
    throw Error{ErrorKind::kData, where, "the id of token \"" + token + "\" is " + json_text(value),
                "ids are whole numbers from 0"};
  }
  return static_cast<std::int32_t>(value.integer());
}

void read_vocabulary(const Json& vocabulary, const std::string& where, TokenizerFiles* files) {
  if (!vocabulary.is_object())
    throw Error{ErrorKind::kData, where, "the vocabulary is not an object of tokens and ids"};
  files->where = where;
  files->tokens.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) files->tokens.emplace(token, token_id(id, token, where));
}

// {"content": "<mask>", "lstrip": true, ...}, as in tokenizer.json, special_tokens_map.json and added_tokens_decoder.
AddedToken added_token(const Json& value, const std::string& where) {
  AddedToken token;
  token.text = get_string(value, "content", where);
  token.takes_space_before = get_bool(value, "lstrip", where, false);
  token.takes_space_after = get_bool(value, "rstrip", where, false);
  token.special = get_bool(value, "special", where, true);
  if (get_bool(value, "single_word", where, false)) {
    throw Error{ErrorKind::kData, where, "token \"" + token.text + "\" has single_word, which is not supported"};
  }
  return token;
}

// A later mention of a token replaces an earlier one.
void put_added(AddedToken token, const std::string& where, TokenizerFiles* files) {
  if (token.text.empty()) throw Error{ErrorKind::kData, where, "an added token is empty"};
  const auto known = files->tokens.find(token.text);
  if (token.id < 0 && known != files->tokens.end()) token.id = known->second;
  if (token.id < 0) return;  // named, but the model has no such token
  const auto same = std::find_if(files->added.begin(), files->added.end(),
                                 [&](const AddedToken& other) { return other.text == token.text; });
  if (same == files->added.end()) {
    files->added.push_back(std::move(token));
  } else {
    *same = std::move(token);
  }
}

void read_merges(const Json& merges, const std::string& where, TokenizerFiles* files) {
  files->merges_where = where;
  files->merges.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      files->merges.emplace_back(merge[0].string(), merge[1].string());
      continue;
    }
    const std::string text = merge.is_string() ? merge.string() : std::string();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      throw Error{
          ErrorKind::kData, where,
          "merge " + std::to_string(files->merges.size()) + " is " + json_text(merge) + ", not a pair of tokens"};
    }
    files->merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
}

std::string type_of(const Json& object, const std::string& key, const std::string& where) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? "null" : get_string(*member, "type", where + ": " + key);
}

void check_model(const Json& model, const std::string& where, TokenizerFiles* files) {
  if (!get_string(model, "continuing_subword_prefix", where, "").empty())
    refuse(where, "continuing_subword_prefix is not empty");
  for (const char* key : {"byte_fallback", "ignore_merges", "fuse_unk"}) {
    if (get_bool(model, key, where, false)) refuse(where, std::string(key) + " is true");
  }
  if (get_number(model, "dropout", where, 0.0) != 0.0) refuse(where, "dropout is not 0");
  files->unknown_byte = get_string(model, "unk_token", where, "");
}

void check_processing(const Json& document, const std::string& where, TokenizerFiles* files) {
  if (find_member(document, "normalizer", where) != nullptr) refuse(where, "it has a normalizer");
  const std::string splitter = type_of(document, "pre_tokenizer", where);
  if (splitter != "ByteLevel") refuse(where, "the pre_tokenizer is \"" + splitter + "\"");
  const Json& pre_tokenizer = get_object(document, "pre_tokenizer", where);
  if (!get_bool(pre_tokenizer, "use_regex", where, true)) refuse(where, "pre_tokenizer.use_regex is false");
  if (get_bool(pre_tokenizer, "add_prefix_space", where, true)) refuse(where, "pre_tokenizer.add_prefix_space is true");
  const std::string ending = type_of(document, "post_processor", where);
  if (ending != "RobertaProcessing" && ending != "BertProcessing")
    refuse(where, "the post_processor is \"" + ending + "\"");
  files->has_bert_pairs = ending == "BertProcessing";
  const Json& post_processor = get_object(document, "post_processor", where);
  for (const auto& [key, name] : {std::pair{"cls", &files->bos}, std::pair{"sep", &files->eos}}) {
    const Json& pair = get_array(post_processor, key, where);
    if (pair.size() != 2 || !pair[0].is_string())
      refuse(where, std::string("post_processor.") + key + " is not a pair of token and id");
    *name = pair[0].string();
  }
}

void read_tokenizer_json(const Json& document, const std::string& path, TokenizerFiles* files) {
  const Json& model = get_object(document, "model", path);
  check_model(model, path, files);
  check_processing(document, path, files);
  read_vocabulary(get_object(model, "vocab", path), path, files);
  read_merges(get_array(model, "merges", path), path, files);
  const Json* added = find_member(document, "added_tokens", path);
  if (added == nullptr) return;
  for (const Json& value : get_array(document, "added_tokens", path)) {
    AddedToken token = added_token(value, path);
    const Json* const id = value.find("id");
    token.id = token_id(id != nullptr ? *id : Json(), token.text, path);
    put_added(std::move(token), path, files);
  }
}

void read_merges_file(const std::string& path, TokenizerFiles* files) {
  if (!std::filesystem::exists(path))
    throw Error{ErrorKind::kData, path, "cannot be read",
                "a tokenizer is tokenizer.json, or vocab.json and merges.txt"};
  std::istringstream file(text_of_file(path));
  files->merges_where = path;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.rfind("#version", 0) == 0) continue;
    const std::size_t space = line.find(' ');
    if (space == 0 || space == std::string::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string::npos) {
      throw Error{ErrorKind::kData, path + ":" + std::to_string(number), "\"" + line + "\" is not a pair of tokens",
                  "write two tokens with one space between"};
    }
    files->merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
}

// A token by its role: a string or an object. RoBERTa's <mask> takes the white space before it where nothing else is
// said.
void read_role(const Json& map, const char* role, std::string* name, const std::string& where, TokenizerFiles* files) {
  const Json* value = find_member(map, role, where);
  if (value == nullptr) return;
  if (!value->is_string() && !value->is_object()) {
    throw Error{ErrorKind::kData, where, std::string(role) + " is neither a string nor an object"};
  }
  if (value->is_object()) {
    AddedToken token = added_token(*value, where);
    *name = token.text;
    put_added(std::move(token), where, files);
  } else {
    *name = value->string();
  }
}

void read_roles(const TokenizerFolder& folder, const char* file, TokenizerFiles* files) {
  if (!folder.has(file)) return;
  const std::string path = folder.path + "/" + file;
  const Json map = read_json_file(path);
  if (get_bool(map, "add_prefix_space", path, false)) refuse(path, "add_prefix_space is true");
  // RobertaTokenizer puts cls_token before the text and sep_token after it; bos_token and eos_token play no part.
  read_role(map, "cls_token", &files->bos, path, files);
  read_role(map, "sep_token", &files->eos, path, files);
  read_role(map, "pad_token", &files->pad, path, files);
  read_role(map, "mask_token", &files->mask, path, files);
  read_role(map, "unk_token", &files->unk, path, files);
  const Json* decoder = find_member(map, "added_tokens_decoder", path);
  if (decoder == nullptr) return;
  if (!decoder->is_object())
    throw Error{ErrorKind::kData, path, "added_tokens_decoder is not an object of ids and tokens"};
  for (const auto& [key, value] : decoder->items()) {
    AddedToken token = added_token(value, path);
    const Json id = parse_json(key, path + ": added_tokens_decoder");
    token.id = token_id(id, token.text, path);
    put_added(std::move(token), path, files);
  }
}

// Tokens that have a role are found in the text even where no file lists them among the added ones.
void add_roles(TokenizerFiles* files) {
  for (const std::string* name : {&files->bos, &files->eos, &files->pad, &files->mask, &files->unk}) {
    const bool known = std::any_of(files->added.begin(), files->added.end(),
                                   [&](const AddedToken& other) { return other.text == *name; });
    if (known || name->empty()) continue;
    AddedToken token;
    token.text = *name;
    token.takes_space_before = name == &files->mask;
    put_added(std::move(token), files->where, files);
  }
}

}  // namespace

TokenizerFiles read_tokenizer_files(const TokenizerFolder& folder) {
  TokenizerFiles files;
  if (!folder.document.is_null()) {
    read_tokenizer_json(folder.document, folder.where, &files);
  } else {
    read_vocabulary(read_json_file(folder.where), folder.where, &files);
    read_merges_file(folder.path + "/merges.txt", &files);
    if (folder.has("added_tokens.json")) {
      const std::string added = folder.path + "/added_tokens.json";
      const Json document = read_json_file(added);
      if (!document.is_object()) throw Error{ErrorKind::kData, added, "not an object of tokens and ids"};
      for (const auto& [text, id] : document.items()) put_added({text, token_id(id, text, added)}, added, &files);
    }
  }
  read_roles(folder, "tokenizer_config.json", &files);
  read_roles(folder, "special_tokens_map.json", &files);
  add_roles(&files);
  return files;
}

}  // namespace bascule
