// SPDX-License-Identifier: Apache-2.0
// data.validation_share: which rows of the training file a split has. Before the seal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/corpus/token_store.h"
#include "src/index/manifest.h"
#include "src/record/recorded_run.h"

namespace bascule {

class HeldOut {
 public:
  HeldOut(const Settings& settings, const IndexCache& cache) : settings_(settings), cache_(cache) {}

  // Whether the split is a part of the training file.
  bool divides(Split split) const { return settings_.data.validation_share > 0.0 && split != Split::kTest; }

  // Of the training file, whole: the split's rows, or the first of them; most: 0 for all. The same rows each time it is
  // called. Throws Error{kSettings} where there are none.
  Manifest rows_of(const Manifest& whole, Split split, std::int64_t most);
  // Of a text corpus: the tokens of the split's documents, or of its lines where these are samples. Arguments as of
  // open_tokens().
  OpenedTokens tokens_of(const DataFiles& files, const Tokenizer& tokenizer, Split split, bool keeps);

  // For people: how many rows were held out. Empty where none were asked for.
  const std::string& note() const { return note_; }

 private:
  void say(std::int64_t held_out, std::int64_t all, const char* unit, const std::string& name);

  const Settings& settings_;
  const IndexCache& cache_;
  std::vector<bool> held_out_;  // by row of the training file
  std::string note_;
};

}  // namespace bascule
