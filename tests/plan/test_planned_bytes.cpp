// SPDX-License-Identifier: Apache-2.0
// The needs of the runs of config/, as numbers: a change that makes a plan grow fails here, and so does one that makes
// it shrink by more than 3 %, so that the number is set anew with the commit that earned it.
#include <dirent.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/graph/backward.h"
#include "src/graph/recompute.h"
#include "src/models/bridgetower.h"
#include "src/models/families.h"
#include "src/plan/workspace.h"
#include "src/settings/settings.h"
#include "tests/models/published_configs.h"
#include "tests/plan/peak_memory.h"
#include "tests/settings/read_text.h"

namespace bascule::test::test_planned_bytes {
namespace {

struct Planned {
  std::size_t train_bytes, evaluate_bytes;  // of the two workspaces
};

// Captions at max_seq_length, so that nothing depends on the data.
const std::map<std::string, Planned> kPlanned = {
    {"bert_base_masked_lm.toml", {6753243840, 90177536}},
    {"bert_base_nli_embeddings.toml", {12497292352, 66355200}},
    {"bert_base_sequence_classification.toml", {1638613440, 75497472}},
    {"bert_base_token_classification.toml", {1777303616, 75497472}},
    {"bert_demo.toml", {92219776, 12582912}},
    {"bert_embeddings_demo.toml", {235536448, 84148224}},
    {"bert_large_phase1.toml", {8855179392, 25165824}},
    {"bert_large_phase2.toml", {4426998720, 100663296}},
    {"bert_sentences_demo.toml", {58983360, 42074112}},
    {"bridgetower_base.toml", {12714571328, 156450816}},  // 11.84 GiB for 40 samples
    {"bridgetower_large.toml", {33726626368, 277610496}},
    {"deit_fine_tune.toml", {687324992, 34062336}},
    {"demo.toml", {87950912, 9027584}},
    {"demo_masked_lm.toml", {96770880, 9027584}},
    {"demo_matching.toml", {87229760, 9027584}},
    {"demo_pace.toml", {142739008, 4104192}},
    {"flan_t5_xl.toml", {283363520, 570556288}},
    {"roberta_base_masked_lm.toml", {6977684160, 140442816}},
    {"roberta_base_sequence_classification.toml", {3277177088, 150994944}},
    {"smoke.toml", {11281856, 9027584}},
    {"t5_3b.toml", {243517632, 637665152}},
    {"t5_base.toml", {3005673408, 88211392}},
    {"t5_demo.toml", {61962176, 22814720}},
    {"t5_large.toml", {142756096, 14745536}},
    {"t5_small.toml", {1055866816, 66846720}},
    {"vit_base.toml", {2522068416, 271122432}},
    {"vit_demo.toml", {70755136, 10716160}},
    {"vit_demo_pooled.toml", {86387520, 10551296}},
    {"vit_fine_tune.toml", {633709760, 34062336}},
};

const std::string kConfigFolder = std::string(BASCULE_TEST_DATA) + "/../../config";

ModelHead head_of(const std::string& head) {
  return head == "contrastive" ? ModelHead::kContrastive
         : head == "masked_lm" ? ModelHead::kMaskedLm
                               : ModelHead::kImageTextMatching;
}

BridgeTowerConfig config_of(const std::string& name, const Settings& settings) {
  if (name == "bridgetower_base.toml") return base_config();
  if (name == "bridgetower_large.toml") return large_config();
  // It starts from what the demo leaves, whose model is the demo's.
  if (name == "demo_matching.toml")
    return read_bridgetower_config(std::string(BASCULE_TEST_DATA) + "/emoji-captions/model/config.json");
  return read_bridgetower_config(settings.model.model_name_or_path.resolved + "/config.json");
}

void recompute_as_set(Graph* graph, const Settings& settings) {
  const GradientCheckpointing kind = settings.training.gradient_checkpointing;
  ASSERT_TRUE(kind == GradientCheckpointing::kSelective || kind == GradientCheckpointing::kFull);
  const Recompute what = kind == GradientCheckpointing::kFull ? Recompute::kAll : Recompute::kCheap;
  recompute(*graph, std::vector<Recompute>(layers_of(*graph).size(), what));
}

struct Plans {
  std::size_t train_bytes = 0, train_bound = 0, evaluate_bytes = 0;
};

Plans plan_run(const BridgeTowerConfig& config, const Settings& settings) {
  const auto bounds = [&](std::int64_t samples) {
    const std::int64_t tokens = settings.data.max_seq_length;
    return bridgetower_counts(samples, samples * tokens,
                              settings.model.head == "masked_lm" ? samples * (tokens / 6) : 0);
  };
  BridgeTowerOptions options;
  options.head = head_of(settings.model.head);
  options.dropout = settings.model.dropout == Dropout::kConfig;
  const std::int64_t side = config.vision.image_size;
  const Fields fields = bridgetower_fields(config, options.head, side, side, options.dropout);
  ParameterSet parameters;
  Graph train(parameters, bounds(settings.training.per_device_train_batch_size), fields);
  record_bridgetower(train, config, options);
  derive_backward(train);
  recompute_as_set(&train, settings);
  const WorkspacePlan plan = plan_workspace(train);
  options.dropout = false;
  Graph evaluate(parameters, bounds(settings.training.per_device_eval_batch_size), fields);
  record_bridgetower(evaluate, config, options);
  lay_out_parameters(parameters, gradient_order(train));
  return {plan.bytes, plan.lower_bound_bytes, plan_workspace(evaluate).bytes};
}

// Plans a model that reads pictures or texts alone.
Plans plan_run(const Model& model, const Settings& settings) {
  RecordOptions options;
  options.dropout = settings.model.dropout == Dropout::kConfig;
  const bool reads_targets = field_from(model.fields(options), FieldSource::kDecoderIds, 1) >= 0;
  const auto bounds = [&](std::int64_t samples) {
    BatchCounts counts;
    counts[kSamples] = samples;
    for (const Field& field : model.fields(options)) {
      const std::int64_t tokens = !reads_targets    ? settings.data.max_seq_length
                                  : field.text == 0 ? settings.data.max_source_length
                                                    : settings.data.max_target_length;
      if (reads_targets && field.source == FieldSource::kTokenIds) counts.longest[field.rows.stream] = tokens;
      if (field.source == FieldSource::kTokenIds || field.source == FieldSource::kLabelledRows)
        counts[field.rows.stream] = samples * tokens * model.inputs().texts_in_a_row;
      const std::int64_t masked = samples * std::min(tokens / 6, settings.data.max_predictions_per_seq);
      if (field.source == FieldSource::kMaskedRows) counts[field.rows.stream] = masked;
      if (field.source == FieldSource::kReadRows)
        counts[field.rows.stream] = masked + (model.inputs().reads_pairs ? samples : 0);  // and the first of each
    }
    return counts;
  };
  ParameterSet parameters;
  Graph train(parameters, bounds(settings.training.per_device_train_batch_size), model.fields(options));
  model.record(train, Use::kTrain, options);
  derive_backward(train);
  recompute_as_set(&train, settings);
  const WorkspacePlan plan = plan_workspace(train);
  options.dropout = false;
  Graph evaluate(parameters, bounds(settings.training.per_device_eval_batch_size), model.fields(options));
  model.record(evaluate, Use::kEvaluate, options);
  lay_out_parameters(parameters, gradient_order(train));
  return {plan.bytes, plan.lower_bound_bytes, plan_workspace(evaluate).bytes};
}

Plans plan_of(const std::string& name, const Settings& settings) {
  if (name.rfind("vit_", 0) != 0 && name.rfind("deit_", 0) != 0 && name.rfind("bert_", 0) != 0 &&
      name.rfind("roberta_", 0) != 0 && name.rfind("t5_", 0) != 0 && name.rfind("flan_", 0) != 0)
    return plan_run(config_of(name, settings), settings);
  const std::string& folder = settings.model.model_name_or_path.resolved;
  // The second phase starts from what the first one leaves.
  const auto published =
      kPublishedConfigs.find(name == "bert_large_phase2.toml" ? "bert-large" : folder.substr(folder.rfind('/') + 1));
  std::string config = folder + "/config.json";
  if (published != kPublishedConfigs.end()) {
    config = testing::TempDir() + "/" + name + ".config.json";
    std::ofstream(config) << published->second;
  }
  ModelSource source{config, {}};
  if (settings.head()->embeds_texts) source.texts_in_a_row = static_cast<std::int64_t>(settings.data.text_columns());
  return plan_run(*open_model(source, settings.model.head), settings);
}

std::vector<std::string> published_files() {
  std::vector<std::string> names;
  DIR* const folder = opendir(kConfigFolder.c_str());
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    const std::string name = entry->d_name;
    // Runs that draw ("sd_") are planned in tests/faults/test_planned_drawings.py.
    if (name.size() > 5 && name.substr(name.size() - 5) == ".toml" && name.rfind("sd_", 0) != 0) names.push_back(name);
  }
  if (folder != nullptr) closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

void expect_close(std::size_t now, std::size_t known, const std::string& what) {
  EXPECT_LE(now, known) << what << " has grown";
  EXPECT_GE(static_cast<double>(now), 0.97 * static_cast<double>(known)) << what << " has shrunk: set the number anew";
}

TEST(PlannedBytes, OfEveryFileInConfigAreAsKnown) {
  std::vector<std::string> known;
  for (const auto& entry : kPlanned) known.push_back(entry.first);
  ASSERT_EQ(published_files(), known) << "each file has its numbers here";
  for (const auto& [name, planned] : kPlanned) {
    const Settings settings = read_settings(kConfigFolder + "/" + name, test_words);
    const Plans plans = plan_of(name, settings);
    expect_close(plans.train_bytes, planned.train_bytes, name + ": training workspace");
    expect_close(plans.evaluate_bytes, planned.evaluate_bytes, name + ": evaluation workspace");
    EXPECT_LE(static_cast<double>(plans.train_bytes), 1.03 * static_cast<double>(plans.train_bound))
        << name << ": far from its lower bound";
  }
}

// Time of this thread, not of the clock on the wall: other work on the machine does not count.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(PlannedBytes, PlanningTheLargeModelTakesUnderASecondAnd50MiB) {
  const Settings settings = read_settings(kConfigFolder + "/bridgetower_large.toml", test_words);
  watch_memory();
  const double begin = thread_seconds();
  plan_run(large_config(), settings);
  const double seconds = thread_seconds() - begin;
  const std::size_t bytes = peak_bytes_since_watch();
  RecordProperty("seconds", std::to_string(seconds));
  RecordProperty("bytes", std::to_string(bytes));
  EXPECT_LT(seconds, 1.0);
  EXPECT_LT(bytes, std::size_t{50} << 20);
}

}  // namespace
}  // namespace bascule::test::test_planned_bytes
