// SPDX-License-Identifier: Apache-2.0
// A decoder of words that config.json ties to the word table: it is that table, unless the weights hold another one.
// Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/models/model.h"

namespace bascule {

// Whether the weights hold a decoder that is no copy of the word table, which is names.table.
bool hold_own_decoder(const ModelSource& source, const std::string& decoder, const FileNames& names);

class TiedDecoder {
 public:
  // says_tied: config.json does. decoder: its full name.
  TiedDecoder(bool says_tied, const ModelSource& source, const std::string& decoder, const FileNames& names);

  bool is_tied() const { return is_tied_; }
  // It is not the word table although config.json says so.
  bool is_own() const { return says_tied_ && !is_tied_; }

  // As the functions of Model with these names. What is saved says so of a decoder of its own: Transformers 4 would
  // replace it by the word table.
  void complete_config(Json* config) const;
  std::vector<std::string> notes() const;

 private:
  bool says_tied_, is_tied_;
};

}  // namespace bascule
