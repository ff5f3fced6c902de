// SPDX-License-Identifier: Apache-2.0
#include "src/text/roberta_files.h"

#include <algorithm>
#include <utility>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/side_tokens.h"
#include "src/text/token_id.h"

namespace bascule {
namespace {

void check_processing(const Json& document, const std::string& where, BpeFiles* files) {
  if (find_member(document, "normalizer", where) != nullptr) refuse_bpe(where, "it has a normalizer");
  const std::string splitter = type_of(document, "pre_tokenizer", where);
  if (splitter != "ByteLevel") refuse_bpe(where, "the pre_tokenizer is \"" + splitter + "\"");
  const Json& pre_tokenizer = get_object(document, "pre_tokenizer", where);
  if (!get_bool(pre_tokenizer, "use_regex", where, true)) refuse_bpe(where, "pre_tokenizer.use_regex is false");
  files->adds_space = get_bool(pre_tokenizer, "add_prefix_space", where, true);
  const std::string ending = type_of(document, "post_processor", where);
  if (ending != "RobertaProcessing" && ending != "BertProcessing")
    refuse_bpe(where, "the post_processor is \"" + ending + "\"");
  files->has_bert_pairs = ending == "BertProcessing";
  const Json& post_processor = get_object(document, "post_processor", where);
  for (const auto& [key, name] : {std::pair{"cls", &files->bos}, std::pair{"sep", &files->eos}}) {
    const Json& pair = get_array(post_processor, key, where);
    if (pair.size() != 2 || !pair[0].is_string())
      refuse_bpe(where, std::string("post_processor.") + key + " is not a pair of token and id");
    *name = pair[0].string();
  }
}

void read_added(const Json& document, const std::string& path, BpeFiles* files) {
  const Json* added = find_member(document, "added_tokens", path);
  if (added == nullptr) return;
  for (const Json& value : get_array(document, "added_tokens", path)) {
    AddedToken token = added_token(value, path);
    const Json* const id = value.find("id");
    token.id = token_id(id != nullptr ? *id : Json(), token.text, path);
    put_added(std::move(token), path, files);
  }
}

// A token by its role: a string or an object. RoBERTa's <mask> takes the white space before it where nothing else is
// said.
void read_role(const Json& map, const char* role, std::string* name, const std::string& where, BpeFiles* files) {
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

void read_roles(const TokenizerFolder& folder, const char* file, BpeFiles* files, std::vector<AddedToken>* further) {
  if (!folder.has(file)) return;
  const std::string path = folder.path + "/" + file;
  const Json map = read_json_file(path);
  // RobertaTokenizer puts cls_token before the text and sep_token after it; the others are found in it.
  for (const char* key : {"bos_token", "eos_token"}) {
    const Json* const value = find_member(map, key, path);
    if (value != nullptr) further->push_back(special_token(*value, key, path));
  }
  for (AddedToken& token : further_tokens(map, path)) further->push_back(std::move(token));
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

// The classes of RoBERTa take it from tokenizer_config.json alone, others from tokenizer.json.
void read_adds_space(const TokenizerFolder& folder, BpeFiles* files) {
  if (folder.takes_document) return;
  const bool is_default = folder.class_name.empty() && files->adds_space;
  files->adds_space = get_bool(folder.config, "add_prefix_space", folder.config_where, is_default);
}

// Special tokens without a role, where they are not listed.
void add_further(const std::vector<AddedToken>& further, BpeFiles* files) {
  for (const AddedToken& token : further) {
    const bool known = std::any_of(files->added.begin(), files->added.end(),
                                   [&](const AddedToken& other) { return other.text == token.text; });
    if (known) continue;
    if (files->tokens.count(token.text) == 0)
      throw Error{ErrorKind::kData, files->where, "the vocabulary has no token \"" + token.text + "\""};
    put_added(token, files->where, files);
  }
}

// Tokens that have a role are found in the text even where no file lists them among the added ones.
void add_roles(BpeFiles* files) {
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

BpeFiles read_roberta_files(const TokenizerFolder& folder) {
  BpeFiles files;
  if (!folder.document.is_null()) {
    check_processing(folder.document, folder.where, &files);
    read_bpe_model(folder, &files);
    read_added(folder.document, folder.where, &files);
  } else {
    read_vocabulary_and_merges(folder, &files);
    if (folder.has("added_tokens.json")) {
      const std::string added = folder.path + "/added_tokens.json";
      const Json document = read_json_file(added);
      if (!document.is_object()) throw Error{ErrorKind::kData, added, "not an object of tokens and ids"};
      for (const auto& [text, id] : document.items()) {
        AddedToken token;
        token.text = text;
        token.id = token_id(id, text, added);
        put_added(std::move(token), added, &files);
      }
    }
  }
  read_adds_space(folder, &files);
  std::vector<AddedToken> further;
  read_roles(folder, "tokenizer_config.json", &files, &further);
  read_roles(folder, "special_tokens_map.json", &files, &further);
  add_roles(&files);
  add_further(further, &files);
  return files;
}

}  // namespace bascule
