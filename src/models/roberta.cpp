// SPDX-License-Identifier: Apache-2.0
// RoBERTa as a family: masked language modelling and labels of texts with BERT's body. Positions begin behind the
// number of the padding token, which is skipped, and all tokens have type 0. Equations: Transformers'
// modeling_roberta.py.
#include "src/models/text_model.h"

namespace bascule {

extern const Family kRoberta;

namespace {

constexpr char kRobertaBody[] = "roberta", kRobertaOutput[] = "classifier.out_proj";
constexpr MaskedWordNames kRobertaMaskedWords = {"lm_head", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                                                 "lm_head.bias"};
// Where both biases are one a file may have either; an untied decoder's one bias is its own.
constexpr NameChange kRobertaNames[] = {{"lm_head.bias", "lm_head.decoder.bias"}};
constexpr NameChange kUntiedRobertaNames[] = {{"lm_head.decoder.bias", "lm_head.bias"}};

// Transformers' class defaults.
BertConfig default_roberta_config() {
  BertConfig config;
  config.vocab_size = 50265;
  config.pad_token_id = 1;
  return config;
}

BertConfig read_roberta_config(const std::string& path) {
  BertConfig config = read_bert_config(path, default_roberta_config());
  check_room_for_tokens(config, config.pad_token_id + 1, path);
  config.head_act = Activation::kGelu;  // whatever hidden_act is
  return config;
}

BertVariant roberta_variant(const BertConfig& config) {
  const std::int32_t padding = static_cast<std::int32_t>(config.pad_token_id);
  return {kRobertaBody, {padding + 1, padding}, false};
}

// As SequenceLayers says.
Tensor roberta_label_logits(BertRecorder& r, const RowStream& last, std::int64_t outputs, Use /*use*/, Recording*) {
  const std::string name = kClassifier;
  r.graph.set_scope(name);
  const auto drop = [&](const char* place, Tensor x) {
    return dropout(r.graph, name + place, x, r.drop(r.config.classifier_dropout), r.keys("sample_keys"));
  };
  const Tensor first = drop(".dropout_of_row", first_rows_of(r, name, last));
  const Tensor hidden =
      activation(r.graph, name, dense(r, name + ".dense", first, r.config.hidden_size), Activation::kTanh);
  return dense(r, kRobertaOutput, drop(".dropout", hidden), outputs);
}

const TextFamily kRobertaTexts = {kRoberta,
                                  "RoBERTa",
                                  read_roberta_config,
                                  roberta_variant,
                                  kBertParts,
                                  kRobertaMaskedWords,
                                  {roberta_label_logits, kRobertaOutput},
                                  {kRobertaNames, std::size(kRobertaNames)},
                                  {kUntiedRobertaNames, std::size(kUntiedRobertaNames)}};

std::vector<std::unique_ptr<Model>> small_roberta_models() {
  BertConfig config = small_text_config(default_roberta_config());
  config.vocab_size = 60;
  config.max_position_embeddings = 22;
  config.type_vocab_size = 1;
  config.layer_norm_eps = 1e-5f;
  return small_text_models(kRobertaTexts, config, small_embeddings(Pooling::kCls, false, 2, EmbeddingLoss::kCosent));
}

std::unique_ptr<Model> open_roberta(const ModelSource& source, const std::string& head) {
  return open_text_model(kRobertaTexts, source, head);
}

}  // namespace

const Family kRoberta = {"roberta",    "", text_heads("Roberta"), {kRobertaBody}, {},
                         open_roberta, {}, small_roberta_models};

}  // namespace bascule
