// SPDX-License-Identifier: Apache-2.0
// What tokenizer_config.json and config.json of a folder say of its tokenizer as a whole: its class, and settings with
// which Transformers would give other ids. README.md lists all keys. Throws Error (kData).
#pragma once

#include <string>

namespace bascule {

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

}  // namespace bascule
