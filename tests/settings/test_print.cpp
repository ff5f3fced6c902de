// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "src/settings/keys.h"
#include "src/settings/read_canonical.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

// A value of the key that is not its default, as TOML.
std::string other_value(const Key& key, const Settings& defaults) {
  if (const auto* k = std::get_if<BoolKey>(&key.kind)) return k->member.get(defaults) ? "false" : "true";
  if (const auto* k = std::get_if<IntegerKey>(&key.kind)) {
    const std::int64_t value = k->member.get(defaults);
    return std::to_string(value < k->max ? value + 1 : value - 1);
  }
  if (const auto* k = std::get_if<RealKey>(&key.kind)) return k->member.get(defaults) == 0.3 ? "0.7" : "0.3";
  if (std::holds_alternative<RangeKey>(key.kind)) return "[0.25, 0.5]";
  if (std::holds_alternative<WordsKey>(key.kind)) return "[\"a \\\"b\\\"\", \"\\u0001\\\\\"]";
  if (std::holds_alternative<PathsKey>(key.kind)) return "[\"a \\\"b\\\"\", \"part-*.jsonl\"]";
  if (std::holds_alternative<FreezeKey>(key.kind)) return "[\"vision_model\"]";
  if (std::holds_alternative<HeadKey>(key.kind)) return "\"masked_lm\"";
  if (const auto* k = std::get_if<ChoiceKey>(&key.kind)) return quoted(k->names[k->count - 1]);
  if (std::holds_alternative<ChoiceOrPathKey>(key.kind)) return "\"./\\\"other\"";
  return "\"\\tother \\\" \xc3\xa9 " + std::string(key.name) + "\"";
}

bool is_of_drawing(const Key& key) { return key.table == std::string_view(kDrawTable); }
bool is_of_serving(const Key& key) { return key.table == std::string_view(kServeTable); }

// A folder that holds what the key's table needs.
std::string model_of(const Key& key) { return is_of_drawing(key) ? "sd-model" : "m"; }

// The least settings of the run that the key belongs to.
Settings least_of(const Key& key) {
  if (is_of_serving(key)) return settings_of("model.model_name_or_path = \"m\"\n[serve]\n");
  if (!is_of_drawing(key)) return settings_of(kLeast);
  return settings_of("model.model_name_or_path = \"sd-model\"\ndraw.output_dir = \"o\"\ndraw.prompts = [\"a\"]\n");
}

std::string drawing_text_with(const Key& key) {
  const std::string name = qualified_name(key);
  std::string text = "model.model_name_or_path = \"sd-model\"\n" + name + " = " + other_value(key, Settings{}) + "\n";
  if (name != "draw.output_dir") text += "draw.output_dir = \"o\"\n";
  if (name != "draw.prompts" && name != "draw.prompts_file") text += "draw.prompts = [\"a\"]\n";
  return text;
}

// The least file with one key changed, and what that key needs.
std::string text_with(const Key& key) {
  if (is_of_drawing(key)) return drawing_text_with(key);
  if (is_of_serving(key))
    return "model.model_name_or_path = \"m\"\n[serve]\n" + std::string(key.name) + " = " +
           other_value(key, Settings{}) + "\n" +
           (key.name == std::string_view("access_log_requests") ? "access_log = \"a\"\n" : "");
  const std::string name = qualified_name(key);
  const bool is_of_corpus =
      name == "data.text_layout" || name == "data.dupe_factor" || name == "data.short_seq_probability";
  std::string text = name + " = " + other_value(key, Settings{}) + "\n";
  for (const auto& [needed, value] : {std::pair<std::string, std::string>{"model.model_name_or_path", "\"m\""},
                                      {"training.output_dir", "\"o\""},
                                      {"data.train_file", is_of_corpus ? "\"t.txt\"" : "\"t\""}}) {
    if (needed != name) text += needed + " = " + value + "\n";
  }
  if (name == "data.label_column" || name == "data.mixup_alpha" || name == "data.cutmix_alpha")
    text += "model.head = \"image_text_matching\"\n";
  if (name == "data.dupe_factor" || name == "data.short_seq_probability") text += "model.head = \"masked_lm\"\n";
  if (name == "training.label_smoothing_factor") text += "model.head = \"masked_lm\"\n";
  if (name == "data.text_pair_column" || name == "data.summary_column" || name == "data.label_all_tokens")
    text += "model.head = \"masked_lm\"\n";
  if (name == "training.batch_sampler" || name == "training.mini_batch_size") text += "model.head = \"masked_lm\"\n";
  if (name == "data.negative_columns" || name == "data.prompts")
    text += "model.head = \"masked_lm\"\ndata.text_pair_column = \"p\"\n";

  for (const char* split : {"data.validation_", "data.test_"}) {
    if (name.rfind(split, 0) != 0) continue;
    const std::string files[] = {std::string(split) + "corpus", std::string(split) + "queries",
                                 std::string(split) + "relevance"};
    if (std::find(std::begin(files), std::end(files), name) == std::end(files)) continue;
    for (const std::string& file : files) {
      if (file != name) text += file + " = \"f\"\n";
    }
    text += "model.head = \"masked_lm\"\n";
  }
  if (name == "data.random_resized_crop_scale" || name == "data.random_resized_crop_ratio")
    text += "data.augment = \"crop_flip\"\n";
  if (name == "data.rand_augment_magnitude" || name == "data.rand_augment_num_magnitude_bins")
    text += "data.rand_augment_num_ops = 2\n";
  if (name == "data.random_erasing_scale" || name == "data.random_erasing_ratio")
    text += "data.random_erasing_probability = 0.5\n";
  if (name == "training.predict_with_generate" || name == "training.generate_ema")
    text += "model.head = \"masked_lm\"\n";
  if (name == "training.generate_ema") text += "training.predict_with_generate = true\ntraining.ema_decay = 0.5\n";
  if (name == "training.do_eval" || name == "report.mlperf_log") text += "data.validation_file = \"v\"\n";
  if (name == "training.do_predict") text += "data.test_file = \"v\"\n";
  for (const auto& [own, scheduler] : {std::pair{"lr_power", "polynomial"},
                                       {"lr_end", "polynomial"},
                                       {"lr_num_cycles", "cosine_with_restarts"},
                                       {"lr_timescale", "inverse_sqrt"},
                                       {"min_lr_ratio", "cosine_with_min_lr"}}) {
    if (name == std::string("training.") + own)
      text += std::string("training.lr_scheduler_type = \"") + scheduler + "\"\n";
  }
  if (name == "training.ema_steps") text += "training.ema_decay = 0.5\n";
  if (name == "training.warmup_start_ratio") text += "training.warmup_steps = 2\n";
  if (name == "training.fused_update") text += "training.optimizer = \"adafactor\"\ntraining.max_grad_norm = 0.0\n";
  if (name == "training.lr_end") text += "training.learning_rate = 0.5\n";
  for (const char* best : {"load_best_model_at_end", "metric_for_best_model", "greater_is_better",
                           "early_stopping_patience", "early_stopping_threshold"}) {
    if (name != std::string("training.") + best) continue;
    text += "data.validation_file = \"v\"\ntraining.eval_strategy = \"epoch\"\ntraining.save_strategy = \"epoch\"\n";
    if (name == "training.greater_is_better") text += "training.metric_for_best_model = \"loss\"\n";
    if (name == "training.early_stopping_threshold") text += "training.early_stopping_patience = 2\n";
  }
  if (name == "training.do_train") text = "data.validation_file = \"v\"\n" + text;
  return text;
}

// Another value, whatever the key allows.
void change(Settings& settings, const Key& key) {
  if (key.table == std::string(kSimulationTable)) settings.media_engine.simulation.is_given = true;
  if (const auto* k = std::get_if<BoolKey>(&key.kind)) k->member.at(settings) = !k->member.get(settings);
  if (const auto* k = std::get_if<IntegerKey>(&key.kind)) k->member.at(settings) += 1;
  if (const auto* k = std::get_if<RealKey>(&key.kind)) k->member.at(settings) += 0.125;
  if (const auto* k = std::get_if<RangeKey>(&key.kind)) k->member.at(settings).least += 0.125;
  if (const auto* k = std::get_if<TextKey>(&key.kind)) k->member.at(settings) += "x";
  if (const auto* k = std::get_if<PathKey>(&key.kind)) k->member.at(settings).written += "x";
  if (const auto* k = std::get_if<PathsKey>(&key.kind)) k->member.at(settings).written.emplace_back("x");
  if (const auto* k = std::get_if<WordsKey>(&key.kind)) k->member.at(settings).emplace_back("x");
  if (const auto* k = std::get_if<FreezeKey>(&key.kind)) k->member.at(settings).emplace_back("text_model");
  if (const auto* k = std::get_if<HeadKey>(&key.kind)) k->member.at(settings) += "x";
  if (const auto* k = std::get_if<ChoiceKey>(&key.kind)) k->set(settings, k->count - 1);
  if (const auto* k = std::get_if<ChoiceOrPathKey>(&key.kind)) k->choice.set(settings, 1);
}

TEST(PrintSettings, EveryKeyReadsBackToItsValue) {
  for (const Key& key : all_keys()) {
    std::string text = text_with(key);
    if (qualified_name(key) == "training.do_train") text.replace(text.find("true"), 4, "false");
    SCOPED_TRACE(text);
    ASSERT_EQ(refusal_of(text), "");
    const Settings once = settings_of(text);
    const std::string printed = print_settings(once);
    ASSERT_EQ(refusal_of(printed), "") << printed;
    const Settings again = settings_of(printed);
    EXPECT_EQ(print_settings(again), printed);
    EXPECT_EQ(number_keys(again), number_keys(once));
    EXPECT_EQ(value_text(key, again), value_text(key, once));
    const Settings canonical = read_canonical_settings(printed, "test", test_words(model_of(key)));
    EXPECT_EQ(print_settings(canonical), printed);
    EXPECT_EQ(number_keys(canonical), number_keys(once));
  }
}

// As it was before lists of files: checkpoints keep it.
TEST(PrintSettings, AStringOfAnyCharactersReadsBack) {
  std::string every;
  for (char c = 1; c < 127; ++c) every += c;
  every += "\x7f\u00e9";
  const std::string text = least_with("data", "caption_column = " + bascule::quoted(every));
  ASSERT_EQ(refusal_of(text), "");
  EXPECT_EQ(settings_of(text).data.caption_column, every);
  EXPECT_EQ(bascule::quoted("a\x1f\x7f\\\""), "\"a\\u001F\\u007F\\\\\\\"\"");
}

TEST(PrintSettings, AListOfOneFileIsThatFile) {
  for (const char* value : {"\"v.csv\"", "[\"v.csv\"]"}) {
    const std::string printed =
        print_settings(settings_of(least_with("data", std::string("validation_file = ") + value)));
    EXPECT_NE(printed.find("\nvalidation_file = \"v.csv\"\nvalidation_share = 0.0\ntest_file = \"\"\n"),
              std::string::npos)
        << printed;
  }
  const std::string list = "validation_file = [\"v.csv\", \"w.csv\"]\n";
  EXPECT_NE(print_settings(settings_of(least_with("data", list))).find("\n" + list), std::string::npos);
}

TEST(PrintSettings, EveryKeyIsPrintedOnceInTheOrderOfTheReference) {
  const std::string printed = print_settings(settings_of(least_with("media_engine.simulation", "")));
  std::size_t at = 0;
  for (const Key& key : all_keys()) {
    if (is_of_drawing(key) || is_of_serving(key)) continue;  // test_drawing.cpp, test_serving.cpp
    const std::size_t found = printed.find("\n" + std::string(key.name) + " = ", at);
    ASSERT_NE(found, std::string::npos) << key.name;
    at = found + 1;
  }
  EXPECT_NE(printed.find("learning_rate = 1e-05\n"), std::string::npos);
  EXPECT_NE(printed.find("num_train_epochs = 5.0\n"), std::string::npos);
  EXPECT_EQ(print_settings(settings_of(kLeast)).find("simulation"), std::string::npos);
}

TEST(Keys, ATableIsInOnePieceAndANameIsUnique) {
  std::set<std::string> tables, names;
  std::string table;
  for (const Key& key : all_keys()) {
    EXPECT_TRUE(names.insert(qualified_name(key)).second) << key.name;
    if (table != key.table) {
      EXPECT_TRUE(tables.insert(key.table).second) << key.table;
    }
    table = key.table;
    EXPECT_FALSE(std::string(key.meaning).empty());
  }
}

TEST(Keys, NoTwoKeysReachTheSameMember) {
  const Settings defaults;
  for (const Key& changed_key : all_keys()) {
    Settings changed;
    change(changed, changed_key);
    for (const Key& key : all_keys()) {
      const bool differs = value_text(key, changed) != value_text(key, defaults);
      // A run that draws has folder and seed in common with one that trains, which is never in the same file.
      const bool is_shared = key.name == std::string_view(changed_key.name) &&
                             is_of_drawing(key) != is_of_drawing(changed_key) &&
                             (key.name == std::string_view("output_dir") || key.name == std::string_view("seed"));
      EXPECT_EQ(differs, &key == &changed_key || is_shared) << changed_key.name << " and " << key.name;
    }
  }
}

TEST(Digest, ChangesExactlyWithTheKeysThatChangeNumbers) {
  const Settings least = settings_of(kLeast);
  EXPECT_EQ(settings_digest(least).size(), 16U);
  EXPECT_EQ(settings_digest(least).find_first_not_of("0123456789abcdef"), std::string::npos);
  for (const Key& key : all_keys()) {
    Settings changed = least_of(key);
    const std::string before = settings_digest(changed), name = qualified_name(key);
    change(changed, key);
    const bool changes_numbers = key.effect != KeyEffect::kFree && key.effect != KeyEffect::kWhileTraining &&
                                 key.effect != KeyEffect::kBetweenMachines && key.effect != KeyEffect::kWithLibrary;
    EXPECT_EQ(settings_digest(changed) != before, changes_numbers) << name;
  }
}

// Digests that programs wrote which let every value of these keys count.
TEST(Digest, OfUsualValuesIsThatOfEarlierPrograms) {
  const auto with_onednn = [](const std::string& text) {
    Settings settings = settings_of(text);
    settings.machine.products = Products::kOnednn;  // the only ones there were
    return settings;
  };
  EXPECT_EQ(settings_digest(with_onednn(kLeast)), "b1915139706b2633");
  const std::string freeze = "freeze = [\"vision_model\", \"text_pooler\"]";
  EXPECT_EQ(settings_digest(with_onednn(least_with("model", freeze))), "53a7f791dfe02146");
  Settings bf16 = with_onednn(least_with("distributed", "wire_type = \"bf16\""));
  bf16.distributed.machines = 2;
  EXPECT_EQ(settings_digest(bf16), "13a7b290f97d15b1");
}

TEST(Digest, DoesNotCountWhatChangesNothing) {
  const std::string digest = settings_digest(settings_of(kLeast));
  EXPECT_EQ(settings_digest(settings_of(least_with("model", "freeze = []"))), digest);
  EXPECT_EQ(settings_digest(settings_of(least_with("distributed", "wire_type = \"bf16\""))), digest);
}

TEST(Digest, LoggingSavingLoadingAndMachineAreFree) {
  for (const auto& [table, line] : {std::pair{"training", "logging_steps = 3"},
                                    {"training", "save_steps = 3"},
                                    {"data", "ring_slots = 5"},
                                    {"data", "dataloader_num_workers = 0"},
                                    {"machine", "threads = 1"},
                                    {"report", "html = false"}}) {
    EXPECT_EQ(settings_digest(settings_of(least_with(table, line))), settings_digest(settings_of(kLeast))) << line;
  }
}

TEST(Digest, RanksMayBeExchangedForAccumulation) {
  Settings one = settings_of(least_with("training", "gradient_accumulation_steps = 4"));
  const Settings two =
      settings_of("distributed.world_size = 2\n" + least_with("training", "gradient_accumulation_steps = 2"));
  EXPECT_EQ(settings_digest(one), settings_digest(two));
  one.training.gradient_accumulation_steps = 3;
  EXPECT_NE(settings_digest(one), settings_digest(two));
}

TEST(Digest, RanksMayNotBeExchangedWhereAMicroBatchIsMoreThanItsSamples) {
  Settings one = settings_of(least_with("training", "gradient_accumulation_steps = 2"));
  Settings two = settings_of("distributed.world_size = 2\n" + std::string(kLeast));
  EXPECT_EQ(settings_digest(one), settings_digest(two));
  one.training.gather_negatives = two.training.gather_negatives = true;
  EXPECT_NE(settings_digest(one), settings_digest(two));
  one.training.gather_negatives = two.training.gather_negatives = false;
  one.data.dataloader_drop_last = two.data.dataloader_drop_last = true;
  EXPECT_NE(settings_digest(one), settings_digest(two));
}

TEST(Digest, DoesNotDependOnWhereTheFileLies) {
  const Settings here = read_settings_text(kLeast, "a.toml", "/here", test_words);
  const Settings there = read_settings_text(kLeast, "b.toml", "/there", test_words);
  EXPECT_EQ(settings_digest(here), settings_digest(there));
}

TEST(Reference, HasARowForEveryKeyWithItsDefault) {
  const std::string text = settings_reference(test_words());
  for (const Key& key : all_keys()) EXPECT_NE(text.find("| `" + std::string(key.name) + "` | "), std::string::npos);
  EXPECT_NE(text.find("| `model_name_or_path` | required |"), std::string::npos);
  EXPECT_NE(text.find("| `learning_rate` | `1e-05` | a number from 0.0 to 1000.0 |"), std::string::npos);
  EXPECT_NE(text.find("### [media_engine.simulation]"), std::string::npos);
}

TEST(Help, NamesEveryKeyOnALineOfItsOwn) {
  const std::string text = settings_help(test_words());
  for (const Key& key : keys_of_file())
    EXPECT_NE(text.find("\n  " + std::string(key.name) + " "), std::string::npos) << key.name;
  EXPECT_NE(text.find("a number from 0.0 to 1000.0; default: 1e-05\n"), std::string::npos);
  EXPECT_NE(text.find("a path as a string; required\n"), std::string::npos);
  EXPECT_NE(text.find("\n[[training.groups]]\n"), std::string::npos);
  EXPECT_EQ(text.find('`'), std::string::npos);
}

}  // namespace
}  // namespace bascule
