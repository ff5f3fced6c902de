// SPDX-License-Identifier: Apache-2.0
// `bascule fill FOLDER "text with [MASK]"`: the tokens that a masked language model puts in the place of masks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/isa.h"

namespace bascule {

struct FillArguments {
  std::string folder;  // a run's output_dir, or any folder with a model and its tokenizer
  std::string text;    // with the tokenizer's mask token, once or more
  std::size_t top = 5;
  bool json = false;
};

struct TokenGuess {
  std::string token;  // as in the vocabulary: "##s" continues a word, and byte-level BPE writes a space as U+0120
  std::string shown;  // for people, with a space there
  double probability = 0.0;
};

struct FilledText {
  std::string text;                            // as asked
  std::vector<std::vector<TokenGuess>> masks;  // of each mask token in turn, best first
};

// Throws Error kSettings for a text that has no mask, is too long or not UTF-8; kData for the folder.
FilledText fill(const FillArguments& arguments, Isa isa, int threads);

// {"text", "masks": [[{"token", "probability"}]]}; the tokens as in the vocabulary.
std::string fill_json(const FilledText& filled);
std::string fill_text(const FilledText& filled);

// Prints the answer. Returns the exit code, 0. Throws Error.
int fill_command(const FillArguments& arguments);

}  // namespace bascule
