// SPDX-License-Identifier: Apache-2.0
#include "src/models/tied_decoder.h"

namespace bascule {

bool hold_own_decoder(const ModelSource& source, const std::string& decoder, const FileNames& names) {
  if (!source.has_weights || !source.has_weights(decoder)) return false;
  return !source.are_equal || !source.are_equal(decoder, names.table, names);
}

TiedDecoder::TiedDecoder(bool says_tied, const ModelSource& source, const std::string& decoder, const FileNames& names)
    : says_tied_(says_tied), is_tied_(says_tied && !hold_own_decoder(source, decoder, names)) {}

void TiedDecoder::complete_config(Json* config) const {
  if (is_own()) (*config)["tie_word_embeddings"] = false;
}

std::vector<std::string> TiedDecoder::notes() const {
  if (!is_own()) return {};
  return {
      "the folder's decoder differs from its word table: both are trained, and config.json will say "
      "tie_word_embeddings = false"};
}

}  // namespace bascule
