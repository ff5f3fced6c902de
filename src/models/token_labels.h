// SPDX-License-Identifier: Apache-2.0
// The head with which BERT and its relatives give each token of a text a tag, such as "B-PER": classifier(dropout(row))
// of every row; the loss is the mean over those that have a tag. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/models/bert_body.h"
#include "src/models/families.h"

namespace bascule {

inline constexpr char kTokenHead[] = "token_classification";

struct TokenLabels {
  std::vector<std::string> names;  // of tags by number; empty: config.json says nothing
  std::int64_t outputs = 2;        // of the classifier: the number of tags
  bool are_new = false;            // config.json has others
};

// Those of a config.json, or the source's where it names some. Throws Error kData.
TokenLabels read_token_labels(const std::string& path, const ModelSource& source);
void write_token_labels(const TokenLabels& labels, Json* config);

// The model.head: its words and its judge.
FamilyHead token_classification_head();
void set_tag_inputs(const TokenLabels& labels, ModelInputs* inputs);
ModelCardWords token_card(const char* kind, const char* tag);

// Of a small model (Family::small_models).
TokenLabels small_tags();

// classifier: the name of its tensors; rate: of its dropout.
void record_tags(BertRecorder& r, const char* classifier, float rate, const RowStream& last, const TokenLabels& labels,
                 const RecordOptions& options, Recording* recording);

}  // namespace bascule
