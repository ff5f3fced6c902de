// SPDX-License-Identifier: Apache-2.0
#include "src/text/bpe_files.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "src/base/error.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/text/token_id.h"

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
  const auto known = files->tokens.find(token.text);
  if (token.id < 0 && known != files->tokens.end()) token.id = known->second;
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

}  // namespace bascule
