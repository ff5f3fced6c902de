// SPDX-License-Identifier: Apache-2.0
#include "src/answer/report.h"

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/json/json.h"
#include "tests/answer/sample_report.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

Json parsed(const std::string& text) { return parse_json(text, "test"); }

TEST(Results, TrainResultsHaveHuggingFacesKeys) {
  const Json json = parsed(train_results_json(test::sample_report()));
  for (const char* key :
       {"epoch", "train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos",
        "memory_allocated (GB)", "max_memory_allocated (GB)", "total_memory_available (GB)",
        // Totals of the whole run, over its resumes.
        "total_train_processes", "total_train_runtime", "total_train_samples_per_second", "total_train_steps",
        "total_train_steps_per_second", "parameters", "trained_parameters",
        // Ours: what the loader did.
        "loader_bad_samples", "loader_could_deliver_samples_per_second", "loader_ring_occupancy", "loader_ring_slots",
        "loader_step_waited_seconds", "loader_waited_for_step_seconds"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.size(), 22u);
  EXPECT_DOUBLE_EQ(json["train_samples_per_second"].number(), 138.9);
}

TEST(Results, AnUnknownMemoryOfTheMachineIsLeftOut) {
  Report report = test::sample_report();
  report.machine_bytes = 0;
  EXPECT_FALSE(parsed(train_results_json(report)).contains("total_memory_available (GB)"));
}

TEST(Results, ThisProcessAndTheWholeRunStandApart) {
  Report report = test::sample_report();
  EXPECT_EQ(summary_text(report).find("whole run"), std::string::npos) << "there was one process";
  report.train.whole = {3, 400, 310.25, 120.5, 3.77};
  const Json json = parsed(all_results_json(report));
  EXPECT_EQ(json["total_train_processes"], 3);
  EXPECT_EQ(json["total_train_steps"], 400);
  EXPECT_EQ(json["total_train_runtime"], 310.25);
  EXPECT_EQ(json["total_train_samples_per_second"], 120.5);
  EXPECT_EQ(json["total_train_steps_per_second"], 3.77);
  EXPECT_EQ(json["train_runtime"], 103.4);
  EXPECT_EQ(json["train_samples_per_second"], 138.9);
  const std::string text = summary_text(report);
  EXPECT_NE(text.find("throughput, this process       138.9 samples/s, without warm-up, evaluation and saving\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("throughput, whole run          120.5 samples/s over 400 steps of 3 processes"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("training time, whole run"), std::string::npos) << text;
  const std::string card = model_card(report);
  EXPECT_NE(card.find("| throughput of the whole run | 120.5 samples/s, without warm-up, evaluation and saving |\n"),
            std::string::npos)
      << card;
  EXPECT_NE(card.find("| time of the whole run | 5 min 10 s, with warm-up, evaluation and saving, in 3 processes |"),
            std::string::npos)
      << card;
  const std::string page = report_html(report);
  EXPECT_NE(page.find("whole run; last process 138.9"), std::string::npos);
  EXPECT_NE(page.find("3 processes"), std::string::npos);
}

TEST(Results, ThroughputWithWarmUpAndLoadingThatWasNotMeasuredSaySo) {
  Report report = test::sample_report();
  report.train.counts_warmup = true;
  report.loader.could_deliver_samples_per_second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(parsed(train_results_json(report))["loader_could_deliver_samples_per_second"].is_null());
  for (const std::string& text : {summary_text(report), model_card(report), report_html(report)}) {
    EXPECT_NE(text.find("with warm-up, without evaluation and saving"), std::string::npos) << text;
    EXPECT_EQ(text.find("without warm-up"), std::string::npos) << text;
  }
  EXPECT_NE(summary_text(report).find("loading was not measured; training waited"), std::string::npos);
}

TEST(Results, AProcessThatOnlyEvaluatedSaysNothingOfItsThroughput) {
  Report report = test::sample_report();
  report.train.whole = {2, 400, 310.25, 120.5, 3.77};
  report.train.samples_per_second = report.train.steps_per_second = 0.0;
  const Json json = parsed(train_results_json(report));
  for (const char* key : {"train_runtime", "train_samples_per_second", "train_steps_per_second",
                          "loader_could_deliver_samples_per_second", "loader_step_waited_seconds"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["total_train_samples_per_second"], 120.5);
  const std::string text = summary_text(report);
  for (const char* words : {"this process", "can deliver"}) EXPECT_EQ(text.find(words), std::string::npos) << text;
  EXPECT_NE(report_html(report).find("whole run; the last process did not train"), std::string::npos);
}

TEST(Results, TrainerStateCountsAnEpochThatHasBegun) {
  Report report = test::sample_report();
  for (const auto& [epochs, count] : {std::make_pair(1.3, 2), std::make_pair(2.0, 2), std::make_pair(0.013, 1)}) {
    report.num_train_epochs = epochs;
    EXPECT_EQ(parsed(trainer_state_json(report))["num_train_epochs"], count) << epochs;
  }
}

EvaluationRecord record_of(Split split, std::int64_t step, double loss) {
  EvaluationRecord record;
  record.split = split;
  record.global_step = step;
  record.loss = loss;
  return record;
}

TEST(Results, TheEvaluationsAtTheEndAreOnTheCurveWhateverItsLogHasKept) {
  const std::vector<EvaluationRecord> kept = {record_of(Split::kValidation, 2, 0.5),
                                              record_of(Split::kValidation, 6, 0.25)};
  const auto steps_with = [&](const EvaluationRecord& last) {
    Report report;
    set_evaluations(&report, Span<const EvaluationRecord>(kept), {last, record_of(Split::kTest, 4, 9.0)});
    EXPECT_EQ(last_evaluation(report, Split::kValidation)->loss, last.loss);
    EXPECT_EQ(last_evaluation(report, Split::kTest)->loss, 9.0);
    EXPECT_EQ(report.evaluations.back().split, Split::kTest);
    std::vector<std::int64_t> steps;
    for (const EvaluationRecord& record : report.evaluations) steps.push_back(record.global_step);
    return steps;
  };
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(steps_with(record_of(Split::kValidation, 6, 0.25)), (Steps{2, 6, 4}));      // it is the last of them
  EXPECT_EQ(steps_with(record_of(Split::kValidation, 4, 0.125)), (Steps{2, 4, 6, 4}));  // the best, which was dropped
  EXPECT_EQ(steps_with(record_of(Split::kValidation, 2, 0.75)), (Steps{2, 2, 6, 4}));   // of other rows
  EXPECT_EQ(steps_with(record_of(Split::kValidation, 8, 0.75)), (Steps{2, 6, 8, 4}));
}

TEST(Results, AFileOfOneSplitUsesTheEvalPrefix) {
  const Report report = test::sample_report();
  const Json validation = parsed(split_results_json(report, Split::kValidation));
  const Json tested = parsed(split_results_json(report, Split::kTest));
  for (const char* key : {"eval_loss", "eval_runtime", "eval_samples", "eval_samples_per_second",
                          "eval_steps_per_second", "eval_text_to_image_recall_at_5", "epoch"}) {
    EXPECT_TRUE(validation.contains(key)) << key;
  }
  EXPECT_FALSE(validation.contains("eval_accuracy"));
  EXPECT_NE(validation["eval_loss"], tested["eval_loss"]);
}

TEST(Results, FiguresOfAveragedWeightsStandBesideThoseOfTheWeights) {
  Report report = test::sample_report();
  EXPECT_EQ(all_results_json(report).find("ema"), std::string::npos);
  for (const Split split : {Split::kValidation, Split::kTest}) {
    EvaluationRecord record = *last_evaluation(report, split);
    record.averaged = 1;
    record.loss = split == Split::kTest ? 0.25 : 0.5;
    report.averaged_evaluations.push_back(record);
  }
  const Json validation = parsed(split_results_json(report, Split::kValidation)),
             all = parsed(all_results_json(report));
  EXPECT_EQ(validation["eval_ema_loss"], 0.5);
  EXPECT_NE(validation["eval_loss"], 0.5);
  EXPECT_EQ(validation["eval_ema_text_to_image_recall_at_5"], validation["eval_text_to_image_recall_at_5"]);
  EXPECT_EQ(parsed(split_results_json(report, Split::kTest))["eval_ema_loss"], 0.25);
  EXPECT_EQ(all["validation_ema_loss"], 0.5);
  EXPECT_EQ(all["test_ema_loss"], 0.25);
  EXPECT_NE(report_html(report).find("validation, averaged weights"), std::string::npos);
  EXPECT_NE(summary_text(report).find("test loss, averaged weights"), std::string::npos);
  EXPECT_NE(model_card(report).find("folder `ema`"), std::string::npos);
}

TEST(Results, TheUnionHasBothSplitsByTheirNames) {
  const Report report = test::sample_report();
  const Json validation = parsed(split_results_json(report, Split::kValidation));
  const Json tested = parsed(split_results_json(report, Split::kTest));
  const Json all = parsed(all_results_json(report));
  EXPECT_EQ(all["train_loss"], 1.2345);
  for (const auto& [key, value] : all.items()) EXPECT_NE(key.substr(0, 5), "eval_") << key;
  for (const char* key : {"loss", "runtime", "samples", "samples_per_second", "steps_per_second",
                          "text_to_image_recall_at_1", "image_to_text_recall_at_10"}) {
    EXPECT_EQ(all[std::string("validation_") + key], validation[std::string("eval_") + key]) << key;
    EXPECT_EQ(all[std::string("test_") + key], tested[std::string("eval_") + key]) << key;
  }
  EXPECT_EQ(all["parameters"], report.parameters);
}

TEST(Results, AnEvaluationsRatesAndLossAreThoseOfTheLastOfItsSplit) {
  Report report;
  report.evaluations.resize(3);
  const Split splits[] = {Split::kValidation, Split::kValidation, Split::kTest};
  for (int i = 0; i < 3; ++i) {
    EvaluationRecord& record = report.evaluations[static_cast<std::size_t>(i)];
    record.split = splits[i];
    record.samples = 60;
    record.steps = 15;
    record.seconds = 2.0;
    record.loss = i + 1.0;
  }
  const Json json = parsed(split_results_json(report, Split::kValidation));
  EXPECT_DOUBLE_EQ(json["eval_loss"].number(), 2.0);
  EXPECT_DOUBLE_EQ(json["eval_samples_per_second"].number(), 30.0);
  EXPECT_DOUBLE_EQ(json["eval_steps_per_second"].number(), 7.5);
}

TEST(Results, SkippedSamplesAreCountedAndNamedInTheUnion) {
  Report report = test::sample_report();
  EXPECT_EQ(parsed(all_results_json(report))["bad_samples_count"], 0);
  report.bad_samples = {{"train", 1, "rows.jsonl:8", "p/7.jpg", "the JPEG file is truncated", "rows.jsonl:9"},
                        {"test", 0, "rows.jsonl:8", "p/7.jpg", "the JPEG file is truncated", ""}};
  report.bad_sample_count = 3;
  report.rows = {{Split::kTrain, 24, -1, 2, 1, 2, false}, {Split::kTest, 301, 300, 1, 1, 1, false}};
  const Json all = parsed(all_results_json(report));
  EXPECT_EQ(all["bad_samples_count"], 3);
  ASSERT_EQ(all["bad_samples"].size(), 2u);
  EXPECT_EQ(all["bad_samples"][0]["row"], "rows.jsonl:8");
  EXPECT_EQ(all["bad_samples"][0]["picture"], "p/7.jpg");
  EXPECT_EQ(all["bad_samples"][0]["reason"], "the JPEG file is truncated");
  EXPECT_EQ(all["bad_samples"][0]["replaced_by"], "rows.jsonl:9");
  EXPECT_EQ(all["bad_samples"][1]["split"], "test");
  EXPECT_TRUE(all["bad_samples"][1]["replaced_by"].is_null()) << "an evaluation leaves it out";
  EXPECT_EQ(all["train_samples"], 24);
  EXPECT_EQ(all["train_skipped_rows"], 1);
  EXPECT_EQ(all["train_replaced_samples"], 2);
  EXPECT_EQ(all["test_samples"], 300);
  EXPECT_EQ(all["test_skipped_rows"], 1);
  EXPECT_NE(summary_text(report).find("300 evaluated, 1 skipped"), std::string::npos);
}

TEST(Results, DistinctRowsAndRepetitionsAreToldApart) {
  EXPECT_EQ(skipped_text({Split::kTrain, 24, -1, 10, 2, 10, false}),
            "train: 2 rows skipped, 10 times in total, each replaced by another row");
  EXPECT_EQ(skipped_text({Split::kTrain, 9999, -1, 1200, 1, 1000, true}),
            "train: at least 1 row skipped, 1200 times in total, each replaced by another row");
  EXPECT_EQ(skipped_text({Split::kValidation, 24, 23, 1, 1, 1, false}), "validation: 1 row skipped, 23 evaluated");
}

TEST(Results, WhatADeviceDidStandsInTheUnionAndInTheSummary) {
  Report report = test::sample_report();
  EXPECT_EQ(all_results_json(report).find("media_engine"), std::string::npos) << "there is no device";
  EXPECT_EQ(summary_text(report).find("media engine"), std::string::npos);
  report.device = {true, "hpu_sim", 2, 5, true, 3, {{"surprise_reset", 2}, {"device_gone", 1}}};
  const Json all = parsed(all_results_json(report));
  EXPECT_EQ(all["media_engine_resets"], 2);
  EXPECT_EQ(all["media_engine_retries"], 5);
  EXPECT_EQ(all["media_engine_fallbacks"], 1);
  EXPECT_EQ(all["media_engine_fault_surprise_reset"], 2);
  EXPECT_EQ(all["media_engine_fault_device_gone"], 1);
  const std::string text = summary_text(report);
  EXPECT_NE(text.find("hpu_sim: 2 resets, 5 pictures resubmitted"), std::string::npos) << text;
  EXPECT_NE(text.find("DEVICE FAILED"), std::string::npos) << text;
}

TEST(Results, TrainerStateHoldsTheWholeHistoryInOrderOfSteps) {
  const Report report = test::sample_report();
  const Json json = parsed(trainer_state_json(report));
  EXPECT_EQ(json["global_step"], 400);
  EXPECT_EQ(json["num_train_epochs"], 5);
  EXPECT_TRUE(json["best_metric"].is_null());
  const Json& history = json["log_history"];
  // 200 records, 4 validations, the summary; the test split is not part of training.
  ASSERT_EQ(history.size(), 205u);
  std::int64_t last = 0;
  for (const Json& entry : history) {
    EXPECT_GE(entry["step"].integer(), last);
    last = entry["step"].integer();
  }
  EXPECT_TRUE(history[50].contains("eval_loss"));
  EXPECT_EQ(history[50]["step"], 100);
  EXPECT_TRUE(history[204].contains("train_runtime"));
}

TEST(Results, TheTraceIsOneStepWithItsOperationsEndToEnd) {
  Report report = test::sample_report();
  report.trace = {{"text_model", "linear", 1e-3, 100.0}, {"text_model", "attention", 2e-3, 0.0}};
  const Json events = parsed(trace_json(report))["traceEvents"];
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["name"], "linear");
  EXPECT_EQ(events[0]["cat"], "text_model");
  EXPECT_EQ(events[0]["dur"], 1000.0);
  EXPECT_EQ(events[1]["ts"], 1000.0);
  EXPECT_EQ(events[1]["ph"], "X");
}

TEST(Results, ALossThatIsNotFiniteIsNullAndNotInvalidJson) {
  Report report = test::sample_report();
  report.train.train_loss = std::numeric_limits<double>::quiet_NaN();
  report.steps[0].loss = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(parsed(train_results_json(report))["train_loss"].is_null());
  EXPECT_TRUE(parsed(trainer_state_json(report))["log_history"][0]["loss"].is_null());
}

TEST(Results, OnlyWhatWasDoneIsWritten) {
  Report report = test::sample_report();
  report.output_dir = testing::TempDir() + "bascule_results";
  fs::remove_all(report.output_dir);
  fs::create_directories(report.output_dir);
  report.train.done = false;
  report.evaluations.resize(4);  // no test
  write_result_files(report);
  EXPECT_TRUE(fs::exists(report.output_dir + "/validation_results.json"));
  EXPECT_TRUE(fs::exists(report.output_dir + "/all_results.json"));
  EXPECT_FALSE(fs::exists(report.output_dir + "/train_results.json"));
  EXPECT_FALSE(fs::exists(report.output_dir + "/test_results.json"));
  for (const auto& entry : fs::directory_iterator(report.output_dir)) EXPECT_EQ(entry.path().extension(), ".json");
}

TEST(ModelCard, OpensWithAYamlHeaderAndSaysHowToLoadAndRepeat) {
  const std::string card = model_card(test::sample_report());
  EXPECT_EQ(card.substr(0, 4), "---\n");
  EXPECT_NE(card.find("\n---\n\n# emoji & captions\n"), std::string::npos);
  EXPECT_NE(card.find("BridgeTowerForContrastiveLearning.from_pretrained"), std::string::npos);
  EXPECT_NE(card.find("bascule run config/demo.toml"), std::string::npos);
  EXPECT_NE(card.find("### Settings\n\n| key | value |\n"), std::string::npos);
  EXPECT_NE(card.find("| `training.learning_rate` | `0.0005` |"), std::string::npos);
  Report without = test::sample_report();
  without.settings.clear();
  EXPECT_EQ(model_card(without).find("### Settings"), std::string::npos);
}

TEST(ModelCard, SaysWhatTheProcessorShowsOfPicturesWhereTheRunSawOthers) {
  Report report;
  report.preparation_note = "The processor pads elongated pictures.";
  report.settings = {{"data.preprocessing", "processor"}};
  EXPECT_EQ(model_card(report).find("pads elongated pictures"), std::string::npos);
  report.settings[0].value = "training";
  EXPECT_NE(model_card(report).find("pads elongated pictures"), std::string::npos);
}

TEST(ModelCard, MetricsStandUnderTheSplitThatTheyAreOf) {
  Report report = test::sample_report();
  EvaluationRecord& test = report.evaluations.back();
  ASSERT_EQ(test.split, Split::kTest);
  test.loss = 12345.5;
  const std::string card = model_card(report);
  const std::size_t validation = card.find(
      "      name: \"validation.jsonl\"\n      type: \"validation.jsonl\"\n"
      "      split: validation\n");
  const std::size_t tested = card.find("      name: \"test.jsonl\"\n      type: \"test.jsonl\"\n      split: test\n");
  ASSERT_NE(validation, std::string::npos);
  ASSERT_NE(tested, std::string::npos);
  EXPECT_GT(card.find("value: 12345.5\n"), tested);  // a number of YAML: no separator
  EXPECT_LT(card.find("value: 12345.5\n"), card.find("\n---\n\n"));
  EXPECT_NE(card.find("### Validation: `validation.jsonl`"), std::string::npos);
  EXPECT_NE(card.find("### Test: `test.jsonl`"), std::string::npos);
}

// A card is published with its folder: it says nothing of the folders of the machine.
TEST(ModelCard, APathFromTheRootIsItsLastName) {
  Report report = test::sample_report();
  report.model_name = "/home/ada/models/bert/";
  report.dataset = "/home/ada/a b/train.jsonl, more/rows.csv, /srv/c.jsonl";
  report.validation_dataset = "rows held out of /home/ada/train.jsonl";
  report.settings_file = "/home/ada/run.toml";
  const std::string card = model_card(report);
  EXPECT_EQ(card.find("/home"), std::string::npos) << card;
  EXPECT_EQ(card.find("/srv"), std::string::npos) << card;
  EXPECT_NE(card.find("base_model: \"bert\"\n"), std::string::npos) << card;
  EXPECT_NE(card.find("from `bert` on `train.jsonl, more/rows.csv, c.jsonl`"), std::string::npos) << card;
  EXPECT_NE(card.find("name: \"rows held out of train.jsonl\""), std::string::npos) << card;
  EXPECT_NE(card.find("\nbascule run run.toml\n"), std::string::npos) << card;
}

// As the Bits contract has it.
TEST(ModelCard, SaysOnWhichProcessorsTheBitsAreTheSame) {
  Report report = test::sample_report();
  EXPECT_NE(model_card(report).find("in `bascule.json`, on any x86-64 CPU with AVX2 and FMA.\n"), std::string::npos);
  report.settings.push_back({"machine.products", "\"onednn\""});
  EXPECT_NE(model_card(report).find("on a CPU of the same kind and with the same `isa`.\n"), std::string::npos);
}

TEST(ModelCard, NamesCannotBreakOutOfTheYamlHeader) {
  Report report = test::sample_report();
  report.model_name = "a\"\n---\nlicense: evil";
  const std::string card = model_card(report);
  EXPECT_NE(card.find("base_model: \"a\\\"\\n---\\nlicense: evil\"\n"), std::string::npos);
}

TEST(Summary, NamesEveryContractAndWhereTheTimeWent) {
  const Report report = test::sample_report();
  const std::string text = summary_text(report);
  for (const ContractResult& contract : report.contracts) EXPECT_NE(text.find(contract.name), std::string::npos);
  EXPECT_NE(text.find("BROKEN"), std::string::npos);
  EXPECT_NE(text.find("backward"), std::string::npos);
  EXPECT_NE(text.find("138.9 samples/s, without warm-up, evaluation and saving\n"), std::string::npos);
  EXPECT_NE(text.find("1 min 43 s, with warm-up, evaluation and saving\n"), std::string::npos) << text;
}

TEST(Summary, EachSplitHasItsOwnCountOfSkippedRows) {
  Report report;
  for (const Split split : {Split::kValidation, Split::kTest}) {
    EvaluationRecord record;
    record.split = split;
    record.samples = 40;
    report.evaluations.push_back(record);
    SplitRows rows;
    rows.split = split;
    rows.skipped = split == Split::kValidation ? 3 : 5;
    report.rows.push_back(rows);
  }
  const std::string text = summary_text(report);
  const std::size_t validation = text.find("40 evaluated, 3 skipped"), test = text.find("40 evaluated, 5 skipped");
  EXPECT_NE(validation, std::string::npos) << text;
  EXPECT_NE(test, std::string::npos) << text;
  EXPECT_LT(validation, text.find("test loss")) << text;
  EXPECT_GT(test, text.find("test loss")) << text;
  EXPECT_EQ(text.find("skipped", test + 23), std::string::npos) << text;
  EXPECT_EQ(text.find("skipped", validation + 23), test + 16) << text;
}

TEST(Summary, TheTimesOfAStepAddUpToItsWholeTime) {
  Report report;
  StepTotals& totals = report.train.totals;
  totals.steps = 4;
  totals.wall_seconds = 8.0;
  for (int phase = 0; phase < kStepPhases; ++phase) totals.seconds[phase] = 1.0;
  const double rest = (8.0 - kStepPhases) / 4.0;
  const std::string text = time_table(report);
  const std::size_t other = text.find("other");
  ASSERT_NE(other, std::string::npos) << text;
  EXPECT_NE(text.find(readable_seconds(rest).c_str(), other), std::string::npos) << text;
}

TEST(Summary, ARunThatDidNothingPrintsNoEmptyTables) {
  Report report;
  report.title = "nothing";
  EXPECT_EQ(summary_text(report), "\nnothing\n");
}

}  // namespace
}  // namespace bascule
