// SPDX-License-Identifier: Apache-2.0
// Folders of sentence-transformers: a body, the pooling of its rows, perhaps a norm, and the rules by which texts are
// prepared. Both layouts are read, that of versions before 5.4 is written, which every version loads. The weights and
// the tokenizer stay with those who read a folder of the body. Before the seal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/readable.h"
#include "src/models/model.h"
#include "src/settings/settings.h"

namespace bascule {

inline constexpr char kModulesFile[] = "modules.json";

enum class Similarity { kCosine, kDot };

struct SentenceFolder {
  std::string folder;                // as named
  std::string body;                  // the folder of config.json, weights and tokenizer: the same, or one below
  bool has_modules = false;          // modules.json exists; without it the folder is that of a body
  Pooling pooling = Pooling::kMean;  // without modules.json: mean, no norm
  bool normalize = false;
  bool include_prompt = true;  // false: the rows of a prompt are left out of the pooling
  std::int64_t max_seq_length = 0;
  std::string length_source;                   // "max_seq_length of sentence_bert_config.json", for people
  bool lower_case = false;                     // texts are written in lower case before they become tokens
  std::map<std::string, std::string> prompts;  // text put before each text, by name
  std::string default_prompt;                  // the name of the one that is used where none is asked for; empty: none
  Similarity similarity = Similarity::kCosine;
  std::vector<std::string> files;  // that say so, beside those of a body: their paths below the folder
};

// The folder of the body: `folder`, or the one below that modules.json names. Reads no other file. Throws Error kData.
std::string body_folder(const std::string& folder);

// width: of the body's rows. text: of its inputs. Throws Error kData naming the file and the key for what is broken,
// does not fit the body, or would give other vectors than the library's.
SentenceFolder read_sentence_folder(const std::string& folder, std::int64_t width, const TextShape& text);

// "mean pooling, norm, 256 tokens (max_seq_length of sentence_bert_config.json)", for people.
std::string sentence_facts(const SentenceFolder& folder);

// The text that is put before each text. name: of a prompt; null: the default one. Throws Error kSettings for a name
// that the folder lacks, kData for a prompt whose rows the folder leaves out of the pooling.
std::string prompt_named(const SentenceFolder& folder, const std::string* name);

// The folder's files beside those of its body. A name may have the name of a folder before it.
std::vector<NamedText> sentence_files(const SentenceFolder& folder, std::int64_t width);

}  // namespace bascule
