// SPDX-License-Identifier: Apache-2.0
// The head with which BERT and its relatives predict masked tokens: decoder(norm(act(dense(row)))) of the rows that
// have a label. The decoder is the word table where config.json ties them, unless the weights hold another one. Before
// the seal.
#pragma once

#include <string>
#include <vector>

#include "src/models/families.h"
#include "src/models/text_head.h"
#include "src/models/tied_decoder.h"

namespace bascule {

struct MaskedWordNames {
  // Tensors in files.
  const char* scope;           // of its operations
  const char *dense, *norm;    // each with .weight and .bias
  const char* decoder;         // with .weight where it is not the word table, and .bias
  const char* bias = nullptr;  // the bias of a decoder that is the word table; null: the decoder's, tied or not
  // Results, in the reference and in the records of a run.
  const char *loss = "loss", *logits = "logits";
};

// The word table, and the decoder of this head where config.json ties them: also for the other heads' files.
void add_tied_words(FileNames* files, const MaskedWordNames& names, const BertConfig& config,
                    const BertVariant& variant);

// The name of the head, and what settings and commands know of it.
inline constexpr char kMaskedWordsHead[] = "masked_lm";
FamilyHead masked_words_head();

class MaskedWords : public TextHead {
 public:
  // The names outlive this.
  MaskedWords(const MaskedWordNames& names, const BertConfig& config, const BertVariant& variant,
              const ModelSource& source);

  const char* name() const override { return kMaskedWordsHead; }
  const char* task() const override { return "fill-mask"; }
  LayerRows rows() const override { return LayerRows::kRead; }
  Fields fields() const override;
  // The reference adds the decoder's bias; where that is another tensor this one is not read.
  std::vector<ParameterPiece> unused_tensors() const override;
  void complete_config(Json* config) const override { decoder_.complete_config(config); }
  std::vector<std::string> notes() const override { return decoder_.notes(); }
  bool has_own_decoder() const override { return decoder_.is_own(); }
  void record(BertRecorder& r, const RowStream& last, Use use, const RecordOptions& options,
              Recording* recording) const override;

 private:
  const MaskedWordNames& names_;
  std::int64_t vocabulary_size_;
  TiedDecoder decoder_;
  std::string bias_;  // the one that is read
};

}  // namespace bascule
