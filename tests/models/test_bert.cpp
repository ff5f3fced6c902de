// SPDX-License-Identifier: Apache-2.0
// BERT's config.json, and what is recorded for it. Its numbers: tests/data/goldens-families.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/models/bert_body.h"
#include "src/models/families.h"
#include "tests/graph/graph_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// The config.json of a small BERT, with these members after its own.
std::string text_with(const std::string& members) {
  return R"({"model_type": "bert", "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
             "vocab_size": 30, "max_position_embeddings": 12)" +
         (members.empty() ? "" : ", " + members) + "}";
}

std::string refusal_of_text(const std::string& text) {
  const TemporaryFolder folder;
  return test::error_of([&] { read_bert_config(folder.write("config.json", text)); });
}

std::string refusal(const std::string& members) { return refusal_of_text(text_with(members)); }

TEST(BertConfig, HasTransformersDefaults) {
  const TemporaryFolder folder;
  const BertConfig config = read_bert_config(folder.write("config.json", text_with("")));
  EXPECT_EQ(config.layer_norm_eps, 1e-12f);
  EXPECT_EQ(config.hidden_dropout_prob, 0.1f);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(BertConfig, RefusesWhatItCannotBeWithTheKey) {
  for (const auto& [members, key] : {std::pair<const char*, const char*>{R"("is_decoder": true)", "is_decoder"},
                                     {R"("add_cross_attention": true)", "add_cross_attention"},
                                     {R"("pad_token_id": 30)", "pad_token_id"},
                                     {R"("position_embedding_type": "relative_key")", "position_embedding_type"},
                                     {R"("hidden_act": "mish")", "hidden_act"}}) {
    EXPECT_NE(refusal(members).find(key), std::string::npos) << members << ": " << refusal(members);
  }
}

TEST(BertConfig, RefusesHeadsThatDoNotDivideTheWidth) {
  std::string text = text_with("");
  text.replace(text.find("24"), 2, "25");
  EXPECT_NE(refusal_of_text(text).find("hidden_size = 25 is not a multiple of num_attention_heads = 3"),
            std::string::npos)
      << refusal_of_text(text);
}

std::vector<std::string> names_of(const std::string& members, bool file_has_decoder,
                                  const std::string& head = "masked_lm") {
  const TemporaryFolder folder;
  const auto has = [=](const std::string& tensor) {
    return file_has_decoder && tensor == "cls.predictions.decoder.weight";
  };
  const std::unique_ptr<Model> model = open_model({folder.write("config.json", text_with(members)), has}, head);
  ParameterSet parameters;
  BatchCounts bounds;
  bounds[kSamples] = 2;
  for (const int stream : {0, 1, 2}) bounds[kFirstModelStream + stream] = 10;
  Graph graph(parameters, bounds, model->fields({}));
  model->record(graph, Use::kTrain, {});
  std::vector<std::string> names;
  for (int p = 0; p < parameters.size(); ++p) {
    for (const ParameterPiece& piece : parameters[p].pieces) names.push_back(piece.name);
  }
  for (const ParameterPiece& piece : model->unused_tensors()) names.push_back("unused " + piece.name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Tied as config.json says, unless the weights hold a decoder of their own.
TEST(Bert, ATiedDecoderIsTheWordTableWithTheBiasOfPredictions) {
  const std::vector<std::string> tied = names_of("", false);
  EXPECT_TRUE(has(tied, "cls.predictions.bias"));
  EXPECT_FALSE(has(tied, "cls.predictions.decoder.weight"));
  EXPECT_FALSE(has(tied, "cls.predictions.decoder.bias"));
  for (const std::vector<std::string>& untied :
       {names_of(R"("tie_word_embeddings": false)", false), names_of("", true)}) {
    EXPECT_TRUE(has(untied, "cls.predictions.decoder.weight"));
    EXPECT_TRUE(has(untied, "cls.predictions.decoder.bias"));
    EXPECT_TRUE(has(untied, "unused cls.predictions.bias"));
  }
}

TEST(Bert, PretrainingHasAPoolerAndAClassifierOfPairsMore) {
  for (const bool tied : {true, false}) {
    const std::string members = tied ? "" : R"("tie_word_embeddings": false)";
    std::vector<std::string> masked = names_of(members, false), pretraining = names_of(members, false, "pretraining");
    for (const char* const name : {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "cls.seq_relationship.weight",
                                   "cls.seq_relationship.bias"}) {
      EXPECT_FALSE(has(masked, name)) << name;
      masked.push_back(name);
    }
    std::sort(masked.begin(), masked.end());
    std::sort(pretraining.begin(), pretraining.end());
    EXPECT_EQ(pretraining, masked);
  }
}

// config.json as a run with the head of sequences saves it.
Json completed(const std::string& members, ModelSource source = {}) {
  const TemporaryFolder folder;
  source.config_path = folder.write("config.json", text_with(members));
  Json config = read_json_file(source.config_path);
  open_model(source, "sequence_classification")->complete_config(&config);
  return config;
}

std::string refusal_of_labels(const std::string& members) {
  const TemporaryFolder folder;
  return test::error_of([&] {
    open_model({folder.write("config.json", text_with(members)), {}}, "sequence_classification");
  });
}

TEST(BertSequences, HaveAPoolerAndAClassifierWithoutAnyPartOfTheMaskedHead) {
  const std::vector<std::string> names = names_of("", true, "sequence_classification");
  for (const char* const name :
       {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"})
    EXPECT_TRUE(has(names, name)) << name;
  for (const std::string& name : names) {
    EXPECT_NE(name.rfind("cls.", 0), 0u) << name;
    EXPECT_NE(name.rfind("unused", 0), 0u) << name;
  }
}

// As Transformers decides: problem_type, else one label is a value.
TEST(BertSequences, OneLabelIsAValueAndSeveralAreClasses) {
  const auto inputs = [](const std::string& members) {
    const TemporaryFolder folder;
    return open_model({folder.write("config.json", text_with(members)), {}}, "sequence_classification")->inputs();
  };
  for (const char* const members : {R"("num_labels": 1)", R"("id2label": {"0": "LABEL_0"}, "problem_type": null)",
                                    R"("id2label": {"0": "score"}, "problem_type": "regression")"}) {
    EXPECT_TRUE(inputs(members).has_values) << members;
    EXPECT_EQ(inputs(members).classes, 1) << members;
    EXPECT_TRUE(inputs(members).class_names.empty()) << members;
  }
  const ModelInputs classes = inputs(R"("id2label": {"0": "no", "1": "yes", "2": "perhaps"})");
  EXPECT_FALSE(classes.has_values);
  EXPECT_EQ(classes.class_names, (std::vector<std::string>{"no", "yes", "perhaps"}));
  EXPECT_TRUE(inputs("").class_names.empty());
  EXPECT_EQ(inputs("").classes, 2);
  EXPECT_TRUE(classes.reads_pairs && classes.pairs_are_optional);
}

TEST(BertSequences, RefuseProblemsTheyCannotSolveByName) {
  EXPECT_NE(refusal_of_labels(R"("problem_type": "multi_label_classification")")
                .find("problem_type = \"multi_label_classification\" is not supported"),
            std::string::npos);
  EXPECT_NE(refusal_of_labels(R"("problem_type": "regression", "num_labels": 3)").find("there are 3 labels"),
            std::string::npos);
  EXPECT_NE(refusal_of_labels(R"("problem_type": "single_label_classification", "num_labels": 1)").find("one class"),
            std::string::npos);
  EXPECT_EQ(refusal_of_labels(R"("problem_type": "regression", "num_labels": 1)"), "no error");
}

TEST(BertSequences, ConfigJsonNamesTheLabelsAndTheirKind) {
  EXPECT_EQ(completed("")["problem_type"].string(), "single_label_classification");
  EXPECT_FALSE(completed("").contains("id2label"));
  ModelSource source;
  source.classes = {"a", "b", "c"};
  const Json classes = completed(R"("num_labels": 1)", source);
  EXPECT_EQ(classes["problem_type"].string(), "single_label_classification");
  EXPECT_EQ(json_text(classes["id2label"]), R"({"0":"a","1":"b","2":"c"})");
  EXPECT_EQ(json_text(classes["label2id"]), R"({"a":0,"b":1,"c":2})");
  EXPECT_EQ(classes["num_labels"].integer(), 3);
  ModelSource values;
  values.has_values = true;
  const Json regression = completed(R"("id2label": {"0": "no", "1": "yes"})", values);
  EXPECT_EQ(regression["problem_type"].string(), "regression");
  EXPECT_EQ(json_text(regression["id2label"]), R"({"0":"LABEL_0"})");
}

TEST(BertTokens, HaveAClassifierAndNoPooler) {
  const std::vector<std::string> names = names_of("", true, "token_classification");
  EXPECT_TRUE(has(names, "classifier.weight"));
  for (const std::string& name : names) {
    EXPECT_EQ(name.find("pooler"), std::string::npos) << name;
    EXPECT_NE(name.rfind("cls.", 0), 0u) << name;
  }
}

// As Transformers' LabelSmoother, of logits 0, 0 and log 4.
TEST(BertTokens, TheLossIsSmoothed) {
  const TemporaryFolder folder;
  ModelSource source;
  source.config_path = folder.write("config.json", text_with(""));
  source.classes = {"B-X", "I-X", "O"};
  const std::unique_ptr<Model> model = open_model(source, "token_classification");
  const Fields fields = model->fields({});
  const std::int32_t tagged[] = {1, 2}, labels[] = {2, 2}, words[] = {0, 1};
  Seeded random(1);
  const TestBatch text(random, {4}, 30);
  Batch batch = text.batch(fields);
  batch.counts = counts_of(1, 4, 2);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].source == FieldSource::kLabelledRows) batch.fields[i] = tagged;
    if (fields[i].source == FieldSource::kTokenLabels) batch.fields[i] = labels;
    if (fields[i].source == FieldSource::kLabelledWords) batch.fields[i] = words;
  }
  for (const double smoothing : {0.0, 0.25}) {
    GraphRun run(batch.counts, 1, fields);
    RecordOptions options;
    options.label_smoothing = static_cast<float>(smoothing);
    const Recording recording = model->record(run.graph(), Use::kTrain, options);
    run.finish({});
    run.set_values("classifier.weight", std::vector<float>(3 * 24, 0.0f));
    run.set_values("classifier.bias", {0.0f, 0.0f, std::log(4.0f)});
    run.replay(batch);
    const double right = std::log(1.5), mean = (2.0 * std::log(6.0) + right) / 3.0;
    EXPECT_NEAR(*run.at(recording.losses[0].loss), (1.0 - smoothing) * right + smoothing * mean, 1e-6);
  }
}

TEST(BertTokens, ConfigJsonNamesNewTags) {
  const TemporaryFolder folder;
  ModelSource source;
  source.config_path = folder.write("config.json", text_with(R"("id2label": {"0": "no", "1": "yes"})"));
  EXPECT_EQ(open_model(source, "token_classification")->inputs().class_names, (std::vector<std::string>{"no", "yes"}));
  source.classes = {"B-X", "I-X", "O"};
  const std::unique_ptr<Model> model = open_model(source, "token_classification");
  EXPECT_EQ(model->inputs().classes, 3);
  Json config = read_json_file(source.config_path);
  model->complete_config(&config);
  EXPECT_EQ(json_text(config["id2label"]), R"({"0":"B-X","1":"I-X","2":"O"})");
  EXPECT_EQ(json_text(config["label2id"]), R"({"B-X":0,"I-X":1,"O":2})");
}

TEST(BertConfig, TheClassifierDropsAsTheLayersUnlessItHasARateOfItsOwn) {
  const auto rate = [](const std::string& members) {
    const TemporaryFolder folder;
    return read_bert_config(folder.write("config.json", text_with(members))).classifier_dropout;
  };
  EXPECT_EQ(rate(R"("hidden_dropout_prob": 0.25)"), 0.25f);
  EXPECT_EQ(rate(R"("hidden_dropout_prob": 0.25, "classifier_dropout": null)"), 0.25f);
  EXPECT_EQ(rate(R"("hidden_dropout_prob": 0.25, "classifier_dropout": 0.5)"), 0.5f);
  EXPECT_EQ(rate(R"("hidden_dropout_prob": 0.25, "classifier_dropout": 0.0)"), 0.0f);
}

}  // namespace
}  // namespace bascule::test
