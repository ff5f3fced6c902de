// SPDX-License-Identifier: Apache-2.0
// The kinds of tokenizers, and what a folder says of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/json/value.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The tokenizer as a whole in tokenizer_config.json and config.json of a folder: its class, and settings with
// which Transformers would give other ids. README.md lists all keys. Throws Error (kData).

struct TokenizerFolder;

// Names of classes without "Tokenizer" and "Fast", and of model types, with a space around each.
struct TokenizerClasses {
  const char* own;      // Transformers takes the vocabulary and tokenizer_config.json, and little of tokenizer.json
  const char* derived;  // the same without tokenizer.json, beside which they take it as it stands
  const char* beside;   // give the ids of a tokenizer.json of this kind
  const char* models;   // config.json's model_type where no file names a class
};

// Reads tokenizer_config.json, and the class, which config.json has where that has none.
void read_tokenizer_config(TokenizerFolder* folder);

// Refuses a class with which Transformers gives other ids than this kind, and settings that change ids. Sets
// folder->is_rebuilt and takes_document.
void check_tokenizer_config(const TokenizerClasses& classes, TokenizerFolder* folder);

// The kinds of tokenizers, and the one of a Hugging Face folder. A further kind is a Tokenizer in a file of its own and
// a line in the table of tokenizer_kinds.cpp. Before the seal; throws Error (kData).

// A folder with tokenizer files, and what they say about the kind of tokenizer.
struct TokenizerFolder {
  std::string path;
  Json document;         // tokenizer.json; null where there is none
  std::string where;     // the file that says the kind
  std::string model;     // "BPE", "WordPiece", "Unigram"
  std::string word_end;  // what BPE puts behind each word; empty: nothing

  Json config;  // tokenizer_config.json; without members where there is none
  std::string config_where;
  std::string class_as_written;  // tokenizer_class; empty: no file names it
  std::string class_name;        // the same without "Tokenizer" and "Fast"
  std::string model_type;        // of config.json, where no class is named
  std::string class_where;
  bool is_rebuilt = false;      // Transformers makes the tokenizer of the vocabulary and tokenizer_config.json
  bool takes_document = false;  // it takes tokenizer.json as it stands

  bool has(const char* file) const;
};

// One line of the table.
struct TokenizerKind {
  const char* name;  // for people
  bool (*is)(const TokenizerFolder& folder);
  std::unique_ptr<const Tokenizer> (*load)(const TokenizerFolder& folder);
  std::vector<std::string> (*token_texts)(const TokenizerFolder& folder);
  std::unique_ptr<const TokenDecoder> (*load_decoder)(const TokenizerFolder& folder);  // null: cannot decode
  bool is_byte_level;        // a character of a token's text stands for a byte
  TokenizerClasses classes;  // with which Transformers gives the same ids
};

// A folder of no kind in the table is refused by the name of its kind. how_to_choose: follows the advice to choose
// another folder: ", for example with ...".
std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& folder, const std::string& how_to_choose = "");

// By id, the text of each token: what Transformers' convert_ids_to_tokens() gives. Empty for an id that no token has.
std::vector<std::string> load_token_texts(const std::string& folder);
// The same for people: a byte-level token as the text of its bytes, where they are UTF-8.
std::vector<std::string> load_shown_tokens(const std::string& folder);

// Whether tokenizer.json counts as it stands because no file of the folder names a class. Beside the config.json of a
// model it would be read otherwise, unless tokenizer_config.json names PreTrainedTokenizerFast.
bool stands_without_class(const std::string& folder);

// Ids back to text. Refused for a kind that cannot.
std::unique_ptr<const TokenDecoder> load_token_decoder(const std::string& folder);

}  // namespace bascule
