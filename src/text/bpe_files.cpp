// SPDX-License-Identifier: Apache-2.0
#include "src/text/bpe_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/text/clip.h"

namespace bascule {
namespace {

void read_vocabulary(const Json& vocabulary, const std::string& where, BpeFiles* files) {
  if (!vocabulary.is_object())
    throw Error{ErrorKind::kData, where, "the vocabulary is not an object of tokens and ids"};
  files->where = where;
  files->tokens.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) files->tokens.emplace(token, token_id(id, token, where));
}

void read_merges(const Json& merges, const std::string& where, BpeFiles* files) {
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

void read_merges_file(const std::string& path, BpeFiles* files) {
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

void check_model(const Json& model, const std::string& where, BpeFiles* files) {
  if (!get_string(model, "continuing_subword_prefix", where, "").empty())
    refuse_bpe(where, "continuing_subword_prefix is not empty");
  for (const char* key : {"byte_fallback", "ignore_merges", "fuse_unk"}) {
    if (get_bool(model, key, where, false)) refuse_bpe(where, std::string(key) + " is true");
  }
  if (get_number(model, "dropout", where, 0.0) != 0.0) refuse_bpe(where, "dropout is not 0");
  files->unknown_byte = get_string(model, "unk_token", where, "");
}

}  // namespace

void refuse_bpe(const std::string& where, const std::string& what) {
  throw Error{ErrorKind::kData, where, what, "the BPE tokenizers supported are RoBERTa's and CLIP's"};
}

void put_added(AddedToken token, const std::string& where, BpeFiles* files) {
  if (token.text.empty()) throw Error{ErrorKind::kData, where, "an added token is empty"};
  if (token.id < 0) token.id = id_in(files->tokens, token.text);
  if (token.id < 0) return;  // named, but the model has no such token
  token.normalized = false;  // RoBERTa normalises no text
  const auto same = std::find_if(files->added.begin(), files->added.end(),
                                 [&](const AddedToken& other) { return other.text == token.text; });
  if (same == files->added.end()) {
    files->added.push_back(std::move(token));
  } else {
    *same = std::move(token);
  }
}

std::string type_of(const Json& object, const std::string& key, const std::string& where) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? "null" : get_string(*member, "type", where + ": " + key);
}

void read_bpe_model(const TokenizerFolder& folder, BpeFiles* files) {
  const Json& model = get_object(folder.document, "model", folder.where);
  check_model(model, folder.where, files);
  read_vocabulary(get_object(model, "vocab", folder.where), folder.where, files);
  read_merges(get_array(model, "merges", folder.where), folder.where, files);
}

void read_vocabulary_and_merges(const TokenizerFolder& folder, BpeFiles* files) {
  read_vocabulary(read_json_file(folder.where), folder.where, files);
  read_merges_file(folder.path + "/merges.txt", files);
}

std::vector<std::string> token_texts(const BpeFiles& files) {
  std::vector<std::string> texts;
  const auto put = [&](std::int32_t id, const std::string& text) {
    const std::size_t at = static_cast<std::size_t>(id);
    if (texts.size() <= at) texts.resize(at + 1);
    texts[at] = text;
  };
  for (const auto& [token, id] : files.tokens) put(id, token);
  for (const AddedToken& token : files.added) put(token.id, token.found_as());
  return texts;
}

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
  files->adds_space = get_bool(folder.config, "add_prefix_space", folder.config_where, false);
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

namespace {

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
  const SideTokens side = read_side_tokens(folder, {{kBosToken, "<|startoftext|>"},
                                                    {kEosToken, "<|endoftext|>"},
                                                    {kUnkToken, "<|endoftext|>"},
                                                    {kPadToken, "<|endoftext|>"}});
  files.added = added_tokens(side, files.tokens.size(), files.tokens, files.where);
  normalise_added(normalised_clip_text, files.where, &files.added);
  files.bos = side.roles[kBosToken].text;
  files.eos = side.roles[kEosToken].text;
  files.unk = files.unknown_byte = side.roles[kUnkToken].text;
  files.pad = side.roles[kPadToken].text;
  files.mask = side.roles[kMaskToken].text;
  return files;
}

}  // namespace bascule
