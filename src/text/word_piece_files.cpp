// SPDX-License-Identifier: Apache-2.0
#include "src/text/word_piece_files.h"

#include <algorithm>
#include <sstream>

#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/text/token_id.h"

namespace bascule {
namespace {

[[noreturn]] void refuse_word_piece(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::kData, where, what, "the only WordPiece tokenizer supported is BERT's"};
}

// Null: as the lower case.
void set_case(bool lowers, const Json* strips_marks, const std::string& where, WordPieceFiles* files) {
  files->lowers = lowers;
  if (strips_marks != nullptr && *strips_marks != lowers)
    refuse_word_piece(where, std::string(lowers ? "lowercase = true with strip_accents = false"
                                                : "lowercase = false with strip_accents = true") +
                                 " is not supported");
}

std::string type_of(const Json& document, const char* key, const std::string& where) {
  return get_string(get_object(document, key, where), "type", where + ": " + key);
}

void read_normalizer(const Json& document, const std::string& where, WordPieceFiles* files) {
  if (type_of(document, "normalizer", where) != "BertNormalizer")
    refuse_word_piece(where, "the normalizer is not BertNormalizer");
  const Json& normalizer = get_object(document, "normalizer", where);
  if (!get_bool(normalizer, "clean_text", where, true)) refuse_word_piece(where, "normalizer.clean_text is false");
  files->splits_chinese = get_bool(normalizer, "handle_chinese_chars", where, true);
  set_case(get_bool(normalizer, "lowercase", where, true), find_member(normalizer, "strip_accents", where), where,
           files);
  if (type_of(document, "pre_tokenizer", where) != "BertPreTokenizer")
    refuse_word_piece(where, "the pre_tokenizer is not BertPreTokenizer");
}

// [CLS] a [SEP], and [CLS] a [SEP] b [SEP] with types 0 and 1.
void check_template(const Json& document, const std::string& where, WordPieceFiles* files) {
  const std::string type = type_of(document, "post_processor", where);
  const Json& processor = get_object(document, "post_processor", where);
  if (type == "BertProcessing") {
    for (const auto& [key, role] : {std::pair{"cls", &files->cls}, std::pair{"sep", &files->sep}}) {
      const Json& pair = get_array(processor, key, where);
      if (pair.size() != 2 || !pair[0].is_string())
        refuse_word_piece(where, std::string("post_processor.") + key + " is not a pair of token and id");
      *role = pair[0].string();
    }
    return;
  }
  if (type != "TemplateProcessing") refuse_word_piece(where, "the post_processor is \"" + type + "\"");
  const auto part = [&](const Json& parts, std::size_t i, const char* kind, std::int64_t type_id) {
    const Json* const found = parts[i].find(kind);
    if (found == nullptr || get_int(*found, "type_id", where) != type_id)
      refuse_word_piece(where, "the post_processor's template is not BERT's");
    return get_string(*found, "id", where);
  };
  const Json &single = get_array(processor, "single", where), &pair = get_array(processor, "pair", where);
  if (single.size() != 3 || pair.size() != 5) refuse_word_piece(where, "the post_processor's template is not BERT's");
  files->cls = part(single, 0, "SpecialToken", 0);
  files->sep = part(single, 2, "SpecialToken", 0);
  (void)part(single, 1, "Sequence", 0);
  (void)part(pair, 1, "Sequence", 0);
  (void)part(pair, 3, "Sequence", 1);
  const bool is_berts = part(pair, 0, "SpecialToken", 0) == files->cls &&
                        part(pair, 2, "SpecialToken", 0) == files->sep &&
                        part(pair, 4, "SpecialToken", 1) == files->sep;
  if (!is_berts) refuse_word_piece(where, "the post_processor's template is not BERT's");
}

void put_added(AddedToken token, WordPieceFiles* files) {
  const auto same = std::find_if(files->added.begin(), files->added.end(),
                                 [&](const AddedToken& other) { return other.text == token.text; });
  if (same == files->added.end()) {
    files->added.push_back(std::move(token));
  } else {
    *same = std::move(token);
  }
}

void read_added(const Json& value, const std::string& where, WordPieceFiles* files) {
  AddedToken token;
  token.text = get_string(value, "content", where);
  if (token.text.empty()) throw Error{ErrorKind::kData, where, "an added token is empty"};
  token.takes_space_before = get_bool(value, "lstrip", where, false);
  token.takes_space_after = get_bool(value, "rstrip", where, false);
  token.special = get_bool(value, "special", where, true);
  for (const char* key : {"single_word", "normalized"}) {
    if (get_bool(value, key, where, false))
      throw Error{ErrorKind::kData, where, "token \"" + token.text + "\" has " + key + ", which is not supported"};
  }
  const Json* const id = value.find("id");
  token.id = token_id(id != nullptr ? *id : Json(), token.text, where);
  put_added(std::move(token), files);
}

void read_tokenizer_json(const Json& document, const std::string& where, WordPieceFiles* files) {
  const Json& model = get_object(document, "model", where);
  if (get_string(model, "continuing_subword_prefix", where, "##") != "##")
    refuse_word_piece(where, "continuing_subword_prefix is not \"##\"");
  if (get_int(model, "max_input_chars_per_word", where, 100) != 100)
    refuse_word_piece(where, "max_input_chars_per_word is not 100");
  files->unk = get_string(model, "unk_token", where, "[UNK]");
  read_normalizer(document, where, files);
  check_template(document, where, files);
  const Json& vocabulary = get_object(model, "vocab", where);
  files->tokens.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) files->tokens.emplace(token, token_id(id, token, where));
  const Json* const added = find_member(document, "added_tokens", where);
  if (added == nullptr) return;
  for (const Json& value : get_array(document, "added_tokens", where)) read_added(value, where, files);
}

void read_vocabulary(const std::string& path, WordPieceFiles* files) {
  std::istringstream file(text_of_file(path));
  std::string line;
  for (std::int32_t id = 0; std::getline(file, line); ++id) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    files->tokens[line] = id;  // of two equal lines the later counts, as in Transformers
  }
}

// The text of a token by its role: a string, or an object with it.
void read_role(const Json& map, const char* role, const std::string& where, std::string* text) {
  const Json* const value = find_member(map, role, where);
  if (value == nullptr) return;
  if (!value->is_string() && !value->is_object())
    throw Error{ErrorKind::kData, where, std::string(role) + " is neither a string nor an object"};
  *text = value->is_string() ? value->string() : get_string(*value, "content", where);
  if (text->empty()) throw Error{ErrorKind::kData, where, std::string(role) + " is empty"};
}

// Beside vocab.txt no tokens are added: those that a file names must be in the vocabulary.
void check_added(const Json& map, const char* key, const std::string& where, const WordPieceFiles& files) {
  const Json* const added = find_member(map, key, where);
  if (added == nullptr) return;
  const auto check = [&](const Json& token) {
    const std::string text = token.is_string() ? token.string() : get_string(token, "content", where);
    if (files.tokens.count(text) == 0)
      throw Error{ErrorKind::kData, where, std::string(key) + " has \"" + text + "\", which vocab.txt does not",
                  "a folder with tokenizer.json may have added tokens"};
  };
  if (added->is_array()) {
    for (const Json& token : *added) check(token);
  } else if (added->is_object()) {
    for (const auto& [id, token] : added->items()) check(token);
  }
}

void read_roles(const TokenizerFolder& folder, const char* file, WordPieceFiles* files) {
  if (!folder.has(file)) return;
  const std::string path = folder.path + "/" + file;
  const Json map = read_json_file(path);
  if (folder.document.is_null()) {
    set_case(get_bool(map, "do_lower_case", path, files->lowers), find_member(map, "strip_accents", path), path, files);
    files->splits_chinese = get_bool(map, "tokenize_chinese_chars", path, files->splits_chinese);
    for (const char* key : {"added_tokens_decoder", "additional_special_tokens"}) check_added(map, key, path, *files);
  }
  read_role(map, "cls_token", path, &files->cls);
  read_role(map, "sep_token", path, &files->sep);
  read_role(map, "pad_token", path, &files->pad);
  read_role(map, "mask_token", path, &files->mask);
  read_role(map, "unk_token", path, &files->unk);
}

}  // namespace

WordPieceFiles read_word_piece_files(const TokenizerFolder& folder) {
  WordPieceFiles files;
  files.where = folder.where;
  if (folder.document.is_null()) {
    read_vocabulary(folder.where, &files);
  } else {
    read_tokenizer_json(folder.document, folder.where, &files);
  }
  read_roles(folder, "tokenizer_config.json", &files);
  read_roles(folder, "special_tokens_map.json", &files);
  // Tokens that have a role are found in the text even where no file lists them among the added ones.
  for (const std::string* role : {&files.cls, &files.sep, &files.pad, &files.mask, &files.unk}) {
    const bool is_known = std::any_of(files.added.begin(), files.added.end(),
                                      [&](const AddedToken& other) { return other.text == *role; });
    const auto found = files.tokens.find(*role);
    if (!is_known && found != files.tokens.end()) files.added.push_back({*role, found->second, false, false, true});
  }
  return files;
}

}  // namespace bascule
