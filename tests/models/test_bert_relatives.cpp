// SPDX-License-Identifier: Apache-2.0
// config.json of RoBERTa and DistilBERT, and what is recorded for them. Their numbers: tests/data/more_goldens.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test::test_bert_relatives {
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
  return test::error_of([&] { open(text, head); });
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
  EXPECT_EQ(refusal(roberta_with(R"("max_position_embeddings": 5)")), "no error");
  EXPECT_NE(refusal(roberta_with(), "pretraining")
                .find("unknown head \"pretraining\"; RoBERTa has masked_lm, sequence_classification, "
                      "token_classification and sentence_embedding"),
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
  // Which of the two biases a file may have in place of the other.
  EXPECT_EQ(open(roberta_with())->file_names().other("lm_head.bias"), "lm_head.decoder.bias");
  EXPECT_EQ(open(roberta_with(), "masked_lm", {"lm_head.decoder.weight"})->file_names().other("lm_head.decoder.bias"),
            "lm_head.bias");
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
  }
  EXPECT_EQ(open(roberta_with(R"("type_vocab_size": 2)"))->inputs().texts[0].token_types, 1);
  // The types that its tokenizer gives the second text of a pair do not matter.
  EXPECT_EQ(open(distilbert_with())->inputs().texts[0].token_types, 0);
}

std::vector<std::string> without_body(std::vector<std::string> names, const std::string& prefix) {
  names.erase(
      std::remove_if(names.begin(), names.end(), [&](const std::string& name) { return name.rfind(prefix, 0) == 0; }),
      names.end());
  return names;
}

TEST(BertRelatives, ClassifyBehindLayersOfTheirOwn) {
  const std::string head = "sequence_classification";
  const std::unique_ptr<Model> roberta = open(roberta_with(), head, {"lm_head.decoder.weight"}),
                               distilbert = open(distilbert_with(), head, {"vocab_projector.weight"});
  EXPECT_STREQ(roberta->architecture(), "RobertaForSequenceClassification");
  EXPECT_STREQ(distilbert->architecture(), "DistilBertForSequenceClassification");
  EXPECT_EQ(without_body(record(*roberta).names, "roberta."),
            (std::vector<std::string>{"classifier.dense.bias", "classifier.dense.weight", "classifier.out_proj.bias",
                                      "classifier.out_proj.weight"}));
  EXPECT_EQ(without_body(record(*distilbert).names, "distilbert."),
            (std::vector<std::string>{"classifier.bias", "classifier.weight", "pre_classifier.bias",
                                      "pre_classifier.weight"}));
  for (const std::string name : {"classifier.dense.bias", "classifier.out_proj.weight"})
    EXPECT_TRUE(roberta->may_be_fresh(name)) << name;
  for (const std::string name : {"pre_classifier.weight", "classifier.bias"})
    EXPECT_TRUE(distilbert->may_be_fresh(name)) << name;
  EXPECT_FALSE(roberta->may_be_fresh("roberta.embeddings.LayerNorm.bias"));
  EXPECT_FALSE(distilbert->may_be_fresh("distilbert.transform.layer.0.ffn.lin1.weight"));
  // With other classes only the last layer begins anew.
  EXPECT_TRUE(roberta->depends_on_classes("classifier.out_proj.weight"));
  EXPECT_FALSE(roberta->depends_on_classes("classifier.dense.weight"));
  EXPECT_TRUE(distilbert->depends_on_classes("classifier.bias"));
  EXPECT_FALSE(distilbert->depends_on_classes("pre_classifier.bias"));
}

// Where the head drops elements, with what probability.
std::vector<std::pair<std::string, float>> dropped_in_head(const Model& model) {
  RecordOptions options;
  options.dropout = true;
  ParameterSet parameters;
  BatchCounts bounds;
  bounds[kSamples] = 2;
  bounds[kFirstModelStream] = 10;
  Graph graph(parameters, bounds, model.fields(options));
  model.record(graph, Use::kTrain, options);
  std::vector<std::pair<std::string, float>> places;
  for (const Node& node : graph.nodes()) {
    const std::string name = graph[node.operands.back().tensor].name;
    if (std::string(node.kind->name) == "dropout" && name.rfind(model.body_prefix(), 0) != 0)
      places.emplace_back(name, node.attributes.as<DropoutPlace>().probability);
  }
  return places;
}

TEST(BertRelatives, ClassifiersDropWithARateOfTheirOwn) {
  using Places = std::vector<std::pair<std::string, float>>;
  const auto places = [](const std::string& text) { return dropped_in_head(*open(text, "sequence_classification")); };
  EXPECT_EQ(places(roberta_with(R"("classifier_dropout": 0.25)")),
            (Places{{"classifier/classifier.dropout_of_row", 0.25f}, {"classifier/classifier.dropout", 0.25f}}));
  EXPECT_EQ(places(roberta_with(R"("hidden_dropout_prob": 0.5)")),
            (Places{{"classifier/classifier.dropout_of_row", 0.5f}, {"classifier/classifier.dropout", 0.5f}}));
  EXPECT_EQ(places(distilbert_with(R"("dropout": 0.5)")), (Places{{"classifier/classifier.dropout", 0.2f}}));
  EXPECT_EQ(places(distilbert_with(R"("seq_classif_dropout": 0.25)")),
            (Places{{"classifier/classifier.dropout", 0.25f}}));
  expect_refused(distilbert_with(R"("seq_classif_dropout": 1.0)"), "seq_classif_dropout");
}

TEST(BertRelatives, GiveTokensTagsBehindDropoutAlone) {
  const std::string head = "token_classification";
  for (const auto& [text, prefix, architecture] :
       {std::tuple{roberta_with(), "roberta.", "RobertaForTokenClassification"},
        {distilbert_with(), "distilbert.", "DistilBertForTokenClassification"}}) {
    const std::unique_ptr<Model> model = open(text, head);
    EXPECT_STREQ(model->architecture(), architecture);
    EXPECT_EQ(without_body(record(*model).names, prefix),
              (std::vector<std::string>{"classifier.bias", "classifier.weight"}));
    EXPECT_TRUE(model->may_be_fresh("classifier.weight"));
    EXPECT_TRUE(model->depends_on_classes("classifier.weight"));
    EXPECT_TRUE(model->inputs().reads_words);
    EXPECT_FALSE(model->inputs().reads_pairs);
  }
  using Places = std::vector<std::pair<std::string, float>>;
  const auto places = [&](const std::string& text) { return dropped_in_head(*open(text, head)); };
  EXPECT_EQ(places(roberta_with(R"("classifier_dropout": 0.25)")), (Places{{"classifier/classifier.dropout", 0.25f}}));
  EXPECT_EQ(places(distilbert_with(R"("dropout": 0.5, "seq_classif_dropout": 0.25)")),
            (Places{{"classifier/classifier.dropout", 0.5f}}));
}

TEST(BertRelatives, HaveClassesOrValues) {
  for (const std::string& text : {roberta_with(R"("id2label": {"0": "no", "1": "yes", "2": "perhaps"})"),
                                  distilbert_with(R"("id2label": {"0": "no", "1": "yes", "2": "perhaps"})")}) {
    const ModelInputs inputs = open(text, "sequence_classification")->inputs();
    EXPECT_EQ(inputs.class_names, (std::vector<std::string>{"no", "yes", "perhaps"}));
    EXPECT_TRUE(inputs.reads_pairs && inputs.pairs_are_optional);
    EXPECT_FALSE(open(text)->inputs().reads_pairs);
  }
  for (const std::string& text : {roberta_with(R"("num_labels": 1)"), distilbert_with(R"("num_labels": 1)")}) {
    const std::unique_ptr<Model> model = open(text, "sequence_classification");
    EXPECT_TRUE(model->inputs().has_values);
    Json config = Json::object();
    model->complete_config(&config);
    EXPECT_EQ(config["problem_type"].string(), "regression");
  }
  for (const std::string& text : {roberta_with(R"("problem_type": "multi_label_classification")"),
                                  distilbert_with(R"("problem_type": "multi_label_classification")")})
    EXPECT_NE(refusal(text, "sequence_classification").find("multi_label_classification"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test::test_bert_relatives
