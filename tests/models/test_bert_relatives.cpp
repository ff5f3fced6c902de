// SPDX-License-Identifier: Apache-2.0
// config.json of RoBERTa and DistilBERT, and what is recorded for them. Their numbers: tests/data/more_goldens.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/models/families.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// The config.json of a small model, with these members after its own.
std::string roberta_with(const std::string& members = "") {
  return R"({"model_type": "roberta", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
             "vocab_size": 30)" +
         (members.empty() ? "" : ", " + members) + "}";
}

std::string distilbert_with(const std::string& members = "") {
  return R"({"model_type": "distilbert", "dim": 24, "n_layers": 1, "n_heads": 3, "hidden_dim": 20, "vocab_size": 30)" +
         (members.empty() ? "" : ", " + members) + "}";
}

std::unique_ptr<Model> open(const std::string& text, const std::string& head = "masked_lm",
                            const std::vector<std::string>& weights = {}) {
  const TemporaryFolder folder;
  const auto has = [=](const std::string& tensor) {
    return std::find(weights.begin(), weights.end(), tensor) != weights.end();
  };
  return open_model({folder.write("config.json", text), has}, head);
}

std::string refusal(const std::string& text, const std::string& head = "masked_lm") {
  try {
    open(text, head);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "";
}

void expect_refused(const std::string& text, const std::string& part) {
  EXPECT_NE(refusal(text).find(part), std::string::npos) << part << ": " << refusal(text);
}

struct Recorded {
  std::vector<std::string> names;  // of all tensors of the checkpoint
  std::vector<std::string> trained;
};

Recorded record(const Model& model, const std::vector<std::string>& frozen = {}) {
  ParameterSet parameters;
  BatchCounts bounds;
  bounds[kSamples] = 2;
  for (const int stream : {0, 1, 2}) bounds[kFirstModelStream + stream] = 10;
  Graph graph(parameters, bounds, model.fields({}));
  RecordOptions options;
  options.frozen = frozen;
  model.record(graph, Use::kTrain, options);
  Recorded recorded;
  for (int p = 0; p < parameters.size(); ++p) {
    for (const ParameterPiece& piece : parameters[p].pieces) {
      recorded.names.push_back(piece.name);
      if (parameters[p].trained) recorded.trained.push_back(piece.name);
    }
  }
  for (const ParameterPiece& piece : model.unused_tensors()) recorded.names.push_back("unused " + piece.name);
  std::sort(recorded.names.begin(), recorded.names.end());
  return recorded;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(Roberta, PositionsBeginBehindThePaddingTokenWhichIsSkipped) {
  const TextShape published = open(roberta_with(R"("max_position_embeddings": 514)"))->inputs().texts[0];
  EXPECT_EQ(published.max_positions - published.positions.first, 512);
  EXPECT_EQ(published.positions.first, 2);
  EXPECT_EQ(published.positions.skipped_id, 1);
  const TextShape other = open(roberta_with(R"("pad_token_id": 4)"))->inputs().texts[0];
  EXPECT_EQ(other.max_positions, 512);
  EXPECT_EQ(other.positions.first, 5);
  EXPECT_EQ(other.positions.skipped_id, 4);
}

TEST(Roberta, RefusesWhatItCannotBeWithTheKey) {
  expect_refused(roberta_with(R"("is_decoder": true)"), "is_decoder");
  expect_refused(roberta_with(R"("pad_token_id": 30)"), "pad_token_id");
  expect_refused(roberta_with(R"("position_embedding_type": "relative_key")"), "position_embedding_type");
  expect_refused(roberta_with(R"("max_position_embeddings": 4)"),
                 "max_position_embeddings = 4 leaves no position for a token between the special ones: the first has "
                 "position 2");
  EXPECT_EQ(refusal(roberta_with(R"("max_position_embeddings": 5)")), "");
  EXPECT_NE(refusal(roberta_with(), "pretraining").find("unknown head \"pretraining\"; RoBERTa has masked_lm"),
            std::string::npos)
      << refusal(roberta_with(), "pretraining");
}

TEST(Roberta, ATiedDecoderIsTheWordTableWithTheHeadsBias) {
  const std::vector<std::string> tied = record(*open(roberta_with())).names;
  EXPECT_TRUE(has(tied, "lm_head.bias"));
  EXPECT_FALSE(has(tied, "lm_head.decoder.weight"));
  EXPECT_FALSE(has(tied, "lm_head.decoder.bias"));
  EXPECT_FALSE(has(tied, "roberta.pooler.dense.weight"));
  for (const std::vector<std::string>& untied :
       {record(*open(roberta_with(R"("tie_word_embeddings": false)"))).names,
        record(*open(roberta_with(), "masked_lm", {"lm_head.decoder.weight"})).names}) {
    EXPECT_TRUE(has(untied, "lm_head.decoder.weight"));
    EXPECT_TRUE(has(untied, "lm_head.decoder.bias"));
    EXPECT_TRUE(has(untied, "unused lm_head.bias"));
  }
}

// A fresh table has a zero row where the padding token is, in both tables that Transformers gives a padding index.
TEST(Roberta, FreshRowsOfThePaddingTokenAreZero) {
  const std::unique_ptr<Model> model = open(roberta_with(R"("pad_token_id": 2)"));
  ParameterSet parameters;
  BatchCounts bounds;
  bounds[kSamples] = 1;
  for (const int stream : {0, 1, 2}) bounds[kFirstModelStream + stream] = 4;
  Graph graph(parameters, bounds, model->fields({}));
  model->record(graph, Use::kTrain, {});
  int tables = 0;
  for (int p = 0; p < parameters.size(); ++p) {
    const ParameterPiece& piece = parameters[p].pieces.front();
    if (piece.name.find("word_emb") == std::string::npos && piece.name.find("position_emb") == std::string::npos)
      continue;
    EXPECT_EQ(piece.initial.zero_first, 2 * 24) << piece.name;
    EXPECT_EQ(piece.initial.zero_end, 3 * 24) << piece.name;
    ++tables;
  }
  EXPECT_EQ(tables, 2);
}

TEST(DistilBert, HasTransformersNames) {
  const std::vector<std::string> names = record(*open(distilbert_with())).names;
  const std::string layer = "distilbert.transformer.layer.0.";
  std::vector<std::string> expected = {"distilbert.embeddings.word_embeddings.weight",
                                       "distilbert.embeddings.position_embeddings.weight", "vocab_projector.bias"};
  for (const std::string& module :
       {std::string("distilbert.embeddings.LayerNorm"), layer + "attention.q_lin", layer + "attention.k_lin",
        layer + "attention.v_lin", layer + "attention.out_lin", layer + "sa_layer_norm", layer + "ffn.lin1",
        layer + "ffn.lin2", layer + "output_layer_norm", std::string("vocab_transform"),
        std::string("vocab_layer_norm")}) {
    expected.push_back(module + ".weight");
    expected.push_back(module + ".bias");
  }
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> found = names;
  found.erase(std::unique(found.begin(), found.end()), found.end());  // the word table is the decoder too
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(has(record(*open(distilbert_with(R"("tie_word_embeddings": false)"))).names, "vocab_projector.weight"));
  EXPECT_TRUE(open(distilbert_with(R"("tie_word_embeddings": false)"))->unused_tensors().empty());
}

TEST(DistilBert, RefusesWhatItCannotBeWithTheKey) {
  expect_refused(distilbert_with(R"("sinusoidal_pos_embds": true)"), "sinusoidal_pos_embds");
  expect_refused(distilbert_with(R"("pad_token_id": 30)"), "pad_token_id");
  expect_refused(distilbert_with(R"("activation": "mish")"), "activation");
  expect_refused(distilbert_with(R"("max_position_embeddings": 2)"), "max_position_embeddings = 2");
  expect_refused(R"({"model_type": "distilbert", "dim": 25, "n_heads": 3})",
                 "dim = 25 is not a multiple of n_heads = 3");
}

TEST(BertRelatives, TrainNothingOfAFrozenBody) {
  for (const auto& [text, body] : {std::pair(roberta_with(), "roberta"), std::pair(distilbert_with(), "distilbert")}) {
    const Recorded recorded = record(*open(text), {body});
    EXPECT_FALSE(recorded.trained.empty());
    for (const std::string& name : recorded.trained) EXPECT_NE(name.rfind(std::string(body) + ".", 0), 0U) << name;
  }
}

TEST(BertRelatives, ReadNoTypesOfTokens) {
  for (const std::string& text : {roberta_with(R"("type_vocab_size": 2)"), distilbert_with()}) {
    const std::unique_ptr<Model> model = open(text);
    EXPECT_LT(field_from(model->fields({}), FieldSource::kTokenTypes), 0);
    EXPECT_EQ(model->inputs().texts[0].token_types, 1);
  }
}

}  // namespace
}  // namespace bascule::test
