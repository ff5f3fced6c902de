// SPDX-License-Identifier: Apache-2.0
// The body of BERT and its relatives, with its configuration.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"
#include "src/base/batch.h"
#include "src/models/model.h"
#include "src/models/recorder.h"

namespace bascule {

// config.json of a folder of BERT or of one of its relatives.

// BERT's class defaults in Transformers 5.23.
struct BertConfig {
  std::int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
               intermediate_size = 3072;
  std::int64_t max_position_embeddings = 512, type_vocab_size = 2, pad_token_id = 0;
  Activation hidden_act = Activation::kGelu, head_act = Activation::kGelu;  // of layers, and of masked words
  float hidden_dropout_prob = 0.1f, attention_probs_dropout_prob = 0.1f, layer_norm_eps = 1e-12f;
  float classifier_dropout = 0.1f, tag_dropout = 0.1f;  // before labels of texts, and before those of words
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};

// config: what the file leaves out. Throws Error kData naming the file and the key, also where the model cannot be
// built.
BertConfig read_bert_config(const std::string& path, BertConfig config = {});
// Refuses a model without a position for a token between two special ones. first: the position of a text's first token.
void check_room_for_tokens(const BertConfig& config, std::int64_t first, const std::string& path);

// The body that BERT and its relatives have: texts packed end to end, their embeddings, and layers with a norm behind
// each part. Each function adds its operations to the graph; equations: Transformers' modeling_bert.py and
// modeling_roberta.py. Before the seal.

// The streams of rows of such a model.
inline constexpr int kTokenStream = kFirstModelStream;       // tokens of the packed texts
inline constexpr int kMaskedStream = kFirstModelStream + 1;  // those that are predicted
inline constexpr int kTaggedStream = kMaskedStream;          // or those that have a tag
inline constexpr int kReadStream = kFirstModelStream + 2;    // those that the heads read: of each text the first too

// Differences between the bodies of the families.
struct BertVariant {
  const char* body;         // what model.freeze calls it; with a dot, what the names of its tensors begin with
  PositionRule positions;   // where it skips a token, the row of that token's position is never trained
  bool reads_types = true;  // else all tokens have type 0
  bool has_prefix = true;   // else the body is the model, and the names of its tensors begin with nothing

  std::string prefix() const { return has_prefix ? std::string(body) + "." : ""; }
};

struct BertRecorder : Recorder {
  // Config and variant outlive this.
  BertRecorder(Graph& target, const BertConfig& model_config, const BertVariant& model_variant,
               const RecordOptions& options);

  SampleRows rows() const { return {rows_of_stream(kTokenStream), graph.field("text_offsets"), keys("text_row_keys")}; }
  SampleRows first_rows() const { return {rows_per_sample(texts_in_a_row), {}, keys("sample_keys")}; }  // of each text

  const BertConfig& config;
  const BertVariant& variant;
  LayerShape layer;
  std::int64_t texts_in_a_row = 1;
};

// The rows of the last layer that the heads read: all, those of the field "read_rows", or each text's first one. Its
// keys and values are of all rows.
enum class LayerRows { kAll, kRead, kFirst };

// Those of the packed texts, and of the rows of the last layer where the loader picks them; between them those of the
// head.
Fields bert_fields(const BertVariant& variant, const RecordOptions& options, LayerRows rows, const Fields& of_head,
                   std::int64_t texts_in_a_row);

std::string word_table_name(const BertVariant& variant);
// The row of the padding token is zero when it is fresh, and looking it up trains it no more.
Tensor word_table(BertRecorder& r);

// Embeddings and layers under the names of a family, called in this order.
struct BodyParts {
  Tensor (*embeddings)(BertRecorder& r);
  RowStream (*layer)(BertRecorder& r, std::int64_t i, RowStream keys, LayerRows rows);
};
extern const BodyParts kBertParts;  // of BERT and RoBERTa; DistilBERT has its own

RowStream pick_rows(BertRecorder& r, const std::string& name, const RowStream& all, LayerRows rows);

// The whole body: those rows of its last layer, or for the reference all of them, which it compares.
RowStream record_body(BertRecorder& r, const BodyParts& parts, Use use, LayerRows rows, Recording* recording);
// (texts, width): the first row of each text in what record_body() gives.
Tensor first_rows_of(BertRecorder& r, const std::string& name, const RowStream& last);

}  // namespace bascule
