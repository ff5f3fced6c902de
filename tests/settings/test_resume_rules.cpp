// SPDX-License-Identifier: Apache-2.0
#include "src/settings/resume_rules.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "src/settings/keys.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

std::string changes_text(const std::vector<SettingChange>& changes) {
  std::string text;
  for (const SettingChange& one : changes)
    text += one.key + ": " + one.from + " -> " + one.to + " [" + resume_word(one.effect) + "]\n";
  return text;
}

std::string changed(const Settings& then, const Settings& now) {
  return changes_text(setting_changes(number_keys(then), other_keys(then), now));
}

// The promise to people in one place: a key that is not listed here must be the same.
TEST(ResumeRules, WhatMayChangeIsThis) {
  const std::map<std::string, std::string> expected = {{"model.model_name_or_path", "same content"},
                                                       {"model.tokenizer_name", "same content"},
                                                       {"data.train_file", "same rows"},
                                                       {"data.validation_file", "from there on"},
                                                       {"data.test_file", "from there on"},
                                                       {"data.validation_corpus", "from there on"},
                                                       {"data.validation_queries", "from there on"},
                                                       {"data.validation_relevance", "from there on"},
                                                       {"data.test_corpus", "from there on"},
                                                       {"data.test_queries", "from there on"},
                                                       {"data.test_relevance", "from there on"},
                                                       {"data.on_bad_sample", "from there on"},
                                                       {"data.val_max_target_length", "from there on"},
                                                       {"data.max_eval_samples", "from there on"},
                                                       {"data.max_predict_samples", "from there on"},
                                                       {"training.per_device_eval_batch_size", "from there on"},
                                                       {"training.num_train_epochs", "longer"},
                                                       {"training.max_steps", "longer"},
                                                       {"training.lr_schedule_steps", "longer"},
                                                       {"training.learning_rate", "lower"},
                                                       {"training.gradient_accumulation_steps", "same product"},
                                                       {"distributed.world_size", "same product"},
                                                       {"data.dataloader_num_workers", "yes"},
                                                       {"data.ring_slots", "yes"},
                                                       {"media_engine.queue_depth", "yes"},
                                                       {"media_engine.memory_mib", "while training"},
                                                       {"media_engine.fallback", "yes"},
                                                       {"media_engine.simulation.units", "yes"},
                                                       {"media_engine.simulation.pictures_per_second", "yes"},
                                                       {"media_engine.simulation.latency_ms", "yes"},
                                                       {"media_engine.simulation.polling", "yes"},
                                                       {"media_engine.simulation.timeout_ms", "yes"},
                                                       {"media_engine.simulation.faults", "yes"},
                                                       {"media_engine.simulation.fault_seed", "yes"},
                                                       {"training.output_dir", "yes"},
                                                       {"training.do_eval", "yes"},
                                                       {"training.do_predict", "yes"},
                                                       {"training.fused_update", "yes"},
                                                       {"training.gradient_checkpointing", "yes"},
                                                       {"training.logging_steps", "yes"},
                                                       {"training.eval_strategy", "while training"},
                                                       {"training.eval_steps", "while training"},
                                                       {"training.save_strategy", "while training"},
                                                       {"training.load_best_model_at_end", "from there on"},
                                                       {"training.metric_for_best_model", "from there on"},
                                                       {"training.greater_is_better", "from there on"},
                                                       {"training.early_stopping_patience", "from there on"},
                                                       {"training.early_stopping_threshold", "from there on"},
                                                       {"training.save_steps", "while training"},
                                                       {"training.save_total_limit", "yes"},
                                                       {"training.resume", "yes"},
                                                       {"training.throughput_warmup_steps", "yes"},
                                                       {"training.predict_with_generate", "from there on"},
                                                       {"training.generate_ema", "from there on"},
                                                       {"generation.num_beams", "from there on"},
                                                       {"generation.max_length", "from there on"},
                                                       {"generation.max_new_tokens", "from there on"},
                                                       {"generation.min_length", "from there on"},
                                                       {"generation.min_new_tokens", "from there on"},
                                                       {"generation.length_penalty", "from there on"},
                                                       {"generation.early_stopping", "from there on"},
                                                       {"generation.no_repeat_ngram_size", "from there on"},
                                                       {"distributed.distribution_strategy", "yes"},
                                                       {"distributed.wire_type", "on one machine"},
                                                       {"distributed.bucket_mib", "yes"},
                                                       {"distributed.sharded_stage", "yes"},
                                                       {"distributed.timeout_seconds", "yes"},
                                                       {"distributed.hostfile", "yes"},
                                                       {"machine.memory_limit_gib", "yes"},
                                                       {"machine.threads", "yes"},
                                                       {"machine.isa", "with our products"},
                                                       {"machine.huge_pages", "yes"},
                                                       {"machine.lock_memory", "yes"},
                                                       {"report.tensorboard", "yes"},
                                                       {"report.html", "yes"},
                                                       {"report.profile", "yes"},
                                                       {"report.hash_steps", "yes"},
                                                       {"report.status_seconds", "yes"},
                                                       {"report.tracking", "yes"},
                                                       {"report.tracking_dir", "yes"},
                                                       {"report.mlperf_log", "yes"}};
  std::map<std::string, std::string> found;
  for (const KeyRule& rule : resume_rules(settings_of(kLeast))) {
    if (rule.word != std::string("no")) found[rule.key] = rule.word;
    EXPECT_FALSE(std::string(rule.resume_meaning).empty());
    EXPECT_NE(resume_legend().find(std::string("- ") + rule.word + ": " + rule.resume_meaning + "\n"),
              std::string::npos);
  }
  EXPECT_EQ(found, expected);
}

TEST(ResumeRules, TheSameSettingsHaveNoChanges) {
  const Settings settings = settings_of(least_with("media_engine.simulation", ""));
  EXPECT_EQ(changed(settings, settings), "");
}

TEST(ResumeRules, AChangeNamesBothValues) {
  const Settings then = settings_of(kLeast);
  Settings now = then;
  now.training.max_steps = 7;
  now.data.ring_slots = 5;
  now.model.head = "masked_lm";
  EXPECT_EQ(changed(then, now),
            "model.head: \"contrastive\" -> \"masked_lm\" [no]\n"
            "data.ring_slots: 3 -> 5 [yes]\n"
            "training.max_steps: 0 -> 7 [longer]\n");
}

TEST(ResumeRules, OnlyTheProductOfRanksAndAccumulationBinds) {
  Settings then = settings_of(least_with("training", "gradient_accumulation_steps = 4"));
  Settings now = then;
  now.training.gradient_accumulation_steps = 2;
  now.distributed.world_size = 2;
  EXPECT_EQ(changed(then, now),
            "training.gradient_accumulation_steps: 4 -> 2 [same product]\n"
            "distributed.world_size: 1 -> 2 [same product]\n");
  then.training.gather_negatives = now.training.gather_negatives = true;
  EXPECT_NE(changed(then, now).find("distributed.world_size with training.gather_negatives: 1 -> 2 [no]\n"),
            std::string::npos);
  now.distributed.world_size = 3;
  EXPECT_NE(changed(then, now).find("distributed.world_size * training.gradient_accumulation_steps: 4 -> 6 [no]\n"),
            std::string::npos);
}

TEST(ResumeRules, TheTypeOfTheWireBindsBetweenMachinesAlone) {
  const Settings then = settings_of(kLeast);
  Settings now = settings_of(least_with("distributed", "wire_type = \"bf16\""));
  EXPECT_EQ(changed(then, now), "distributed.wire_type: \"float32\" -> \"bf16\" [yes]\n");
  now.distributed.machines = 2;
  EXPECT_EQ(changed(then, now), "distributed.wire_type: \"float32\" -> \"bf16\" [no]\n");
}

TEST(ResumeRules, FreezingTheTextPoolerIsNoChange) {
  for (const char* parts : {"", "\"vision_model\"", "\"vision_model\", \"text_model\""}) {
    const std::string with = std::string(parts) + (*parts == '\0' ? "" : ", ") + "\"text_pooler\"";
    const Settings frozen = settings_of(least_with("model", "freeze = [" + with + "]"));
    const Settings other = settings_of(least_with("model", "freeze = [" + std::string(parts) + "]"));
    EXPECT_EQ(changed(frozen, other), "");
    EXPECT_EQ(changed(other, frozen), "");
    KeyValues numbers = number_keys(other);  // as an older program kept it
    for (auto& [key, value] : numbers) {
      if (key == "model.freeze") value = "[" + std::string(parts) + "]";
    }
    EXPECT_EQ(changes_text(setting_changes(numbers, {}, frozen)), "");
    EXPECT_EQ(changes_text(setting_changes(numbers, {}, other)), "");
  }
  EXPECT_EQ(changed(settings_of(kLeast), settings_of(least_with("model", "freeze = [\"text_model\"]"))),
            "model.freeze: [\"text_pooler\"] -> [\"text_model\", \"text_pooler\"] [no]\n");
}

// An older program has kept fewer keys that change numbers, and none of the others.
TEST(ResumeRules, AKeyThatWasNotKeptHadItsDefault) {
  Settings settings = settings_of(kLeast);
  KeyValues numbers = number_keys(settings);
  const auto schedule = std::find_if(numbers.begin(), numbers.end(),
                                     [](const auto& one) { return one.name == "training.lr_schedule_steps"; });
  ASSERT_NE(schedule, numbers.end());
  numbers.erase(schedule);
  EXPECT_EQ(changes_text(setting_changes(numbers, {}, settings)), "");
  settings.training.lr_schedule_steps = 9;
  settings.machine.threads = 3;
  EXPECT_EQ(changes_text(setting_changes(numbers, {}, settings)), "training.lr_schedule_steps: 0 -> 9 [longer]\n");
}

// Programs that did not have the key computed with oneDNN's products, whatever is the default since.
TEST(ResumeRules, AProgramWithoutOwnProductsHadThoseOfOnednn) {
  Settings settings = settings_of(kLeast);
  settings.machine.products = Products::kOnednn;
  const KeyValues numbers = number_keys(settings);
  EXPECT_EQ(
      std::count_if(numbers.begin(), numbers.end(), [](const auto& one) { return one.name == "machine.products"; }), 0);
  EXPECT_EQ(changes_text(setting_changes(numbers, {}, settings)), "");
  settings.machine.products = Products::kOurs;
  EXPECT_EQ(changes_text(setting_changes(numbers, {}, settings)), "machine.products: \"onednn\" -> \"ours\" [no]\n");
}

// Another instruction set gives the same bits with our own products only.
TEST(ResumeRules, TheInstructionSetIsFreeWithOurProducts) {
  for (const Products products : {Products::kOurs, Products::kOnednn}) {
    Settings then = settings_of(kLeast);
    then.machine.products = products;
    Settings now = then;
    now.machine.isa = IsaSetting::kAvx2;
    EXPECT_EQ(changed(then, now), products == Products::kOurs ? "machine.isa: \"auto\" -> \"avx2\" [yes]\n"
                                                              : "machine.isa: \"auto\" -> \"avx2\" [while training]\n");
  }
}

TEST(ResumeRules, WhatOnlyTheStartKnewBinds) {
  const Settings settings = settings_of(kLeast);
  KeyValues numbers = number_keys(settings);
  numbers.push_back({"training.warp", "9"});
  EXPECT_EQ(changes_text(setting_changes(numbers, {}, settings)), "training.warp: 9 -> not set [no]\n");
}

}  // namespace
}  // namespace bascule
