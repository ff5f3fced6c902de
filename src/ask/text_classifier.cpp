// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_classifier.h"

#include <algorithm>

#include "src/ask/finished_model.h"
#include "src/ask/logits.h"
#include "src/machine/process_limits.h"
#include "src/runtime/choose_isa.h"
#include "src/session/packed_batch.h"

namespace bascule {

TextClassifier::TextClassifier(const std::string& folder, const Model& model, std::int32_t second_type,
                               std::int64_t batch, std::int64_t longest)
    : folder_(folder),
      inputs_(model.inputs()),
      second_type_(second_type),
      fields_(model.fields({})),
      threads_(threads_within(read_process_limits(), usable_cores(), 1), false) {
  BatchCounts bounds;
  bounds[kSamples] = batch;
  for (const FieldSource source : {FieldSource::kTokenIds, FieldSource::kLabelledRows}) {
    const int field = field_from(fields_, source);
    if (field < 0) continue;
    const int stream = fields_[static_cast<std::size_t>(field)].rows.stream;
    bounds[stream] = batch * longest;
    bounds.longest[stream] = longest;
  }
  logits_ = reference_logits(model.record(session_.add_graph(bounds, fields_), Use::kReference, {}));
  seal_with_weights(&session_, model, folder, choose_isa("auto"), threads_);
}

const float* TextClassifier::run(const std::vector<EncodedText>& texts) {
  PaddedBatch padded;
  padded.samples = static_cast<std::int64_t>(texts.size());
  padded.labels.assign(texts.size(), 0);  // for the loss, which nobody reads
  padded.label_values.assign(texts.size(), 0.0f);
  PaddedText& text = padded.texts[0];
  std::int64_t tokens = 0;
  for (const EncodedText& one : texts) {
    const std::int64_t length = static_cast<std::int64_t>(one.ids.size());
    text.length = std::max(text.length, length);
    tokens += length;
  }
  for (const EncodedText& one : texts) {
    for (std::size_t t = 0; t < static_cast<std::size_t>(text.length); ++t) {
      const bool is_there = t < one.ids.size();
      text.input_ids.push_back(is_there ? one.ids[t] : 0);
      text.attention_mask.push_back(is_there ? 1 : 0);
      text.token_types.push_back(is_there && t >= one.second_begin ? second_type_ : 0);
      if (inputs_.reads_words) text.token_labels.push_back(is_there ? 0 : -100);
    }
  }
  const PackedBatch packed(padded, inputs_, false, "the text");
  Replay replay;
  replay.batch = packed.batch(fields_);
  session_.tape(0).replay(threads_, replay);
  const float* const logits = session_.tape(0).at(logits_);
  const std::int64_t rows = inputs_.reads_words ? tokens : padded.samples;
  refuse_not_finite_logits(logits, rows * inputs_.classes, folder_);
  return logits;
}

}  // namespace bascule
