// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "tests/settings/read_text.h"

namespace bascule {
namespace {

TEST(Validate, AShareIsHeldOutWhereNoValidationFileIsNamed) {
  const Settings settings = settings_of(least_with("data", "validation_share = 0.25"));
  EXPECT_TRUE(settings.training.do_eval);
  EXPECT_EQ(settings.data.evaluation_file().written, settings.data.train_file.written);
  EXPECT_FALSE(settings_of(kLeast).training.do_eval);
  EXPECT_EQ(refusal_of(least_with("data", "validation_share = 0.25\nvalidation_file = \"v.jsonl\"")),
            "test.toml:4:20: data.validation_share and data.validation_file are both set; remove one");
  EXPECT_EQ(refusal_of("[model]\nmodel_name_or_path = \"m\"\n[data]\ntest_file = \"t.jsonl\"\nvalidation_share = 0.25\n"
                       "[training]\noutput_dir = \"o\"\n"),
            "test.toml:5:20: data.validation_share is set, but data.train_file is missing; set it, or name a "
            "data.validation_file");
}

TEST(Validate, APhaseThatIsOnNeedsItsFile) {
  EXPECT_EQ(refusal_of(least_with("training", "do_eval = true")),
            "test.toml:6:11: training.do_eval = true, but data.validation_file is missing; set it, or set "
            "training.do_eval = false");
  EXPECT_NE(refusal_of(least_with("training", "do_predict = true")).find("data.test_file"), std::string::npos);
  const std::string no_file = "[model]\nmodel_name_or_path = \"m\"\n[training]\noutput_dir = \"o\"\n";
  EXPECT_NE(refusal_of(no_file).find("nothing to do"), std::string::npos);
  EXPECT_NE(refusal_of(no_file + "do_train = true\n").find("data.train_file is missing"), std::string::npos);
  EXPECT_NE(refusal_of(least_with("training", "do_train = false")).find("nothing to do"), std::string::npos);
}

TEST(Validate, StepsOrEpochsDecideNotBoth) {
  const Settings steps = settings_of(least_with("training", "max_steps = 7"));
  EXPECT_EQ(steps.training.max_steps, 7);
  EXPECT_EQ(steps.training.num_train_epochs, 0.0);
  EXPECT_EQ(refusal_of(least_with("training", "max_steps = 7\nnum_train_epochs = 2")),
            "test.toml:6:13: training.max_steps and training.num_train_epochs are both set; remove one");
  EXPECT_EQ(refusal_of(least_with("training", "max_steps = 7\nnum_train_epochs = 0")), "");
  EXPECT_NE(refusal_of(least_with("training", "num_train_epochs = 0")).find("are both 0"), std::string::npos);
}

TEST(Validate, KeysOfATextCorpusNeedOne) {
  const auto with = [](const std::string& file, const std::string& line) {
    const std::string table = "data.validation_file = \"" + file + "\"\n" + line + "\n";
    return refusal_of(least_with("data", table.substr(std::string("data.").size())));
  };
  EXPECT_EQ(with("v.txt", "text_layout = \"lines\""), "");
  EXPECT_NE(with("v.jsonl", "text_layout = \"lines\"").find("data.text_layout applies only to a text corpus"),
            std::string::npos);
  EXPECT_EQ(with("v.jsonl", "max_seq_length = 4"), "");
  for (const char* line : {"dupe_factor = 3", "short_seq_probability = 0.5"})
    EXPECT_NE(with("v.txt", line).find("with a head that reads pairs of texts"), std::string::npos) << line;
  EXPECT_NE(with("v.txt", "max_seq_length = 4").find("data.max_seq_length = 4: samples of a text corpus"),
            std::string::npos);
  EXPECT_NE(
      with("v.txt", "masking = \"bernoulli\"\nmax_predictions_per_seq = 3").find("max_predictions_per_seq applies"),
      std::string::npos);
}

TEST(Validate, WarmUpIsStepsOrRatioAndNeedsAScheduleThatHasOne) {
  EXPECT_NE(refusal_of(least_with("training", "warmup_steps = 7\nwarmup_ratio = 0.1")).find("remove one"),
            std::string::npos);
  EXPECT_EQ(refusal_of(least_with("training", "warmup_steps = 7\nlr_scheduler_type = \"constant\"")),
            "test.toml:6:16: lr_scheduler_type = \"constant\" has no warm-up; use \"constant_with_warmup\"");
  EXPECT_EQ(refusal_of(least_with("training", "warmup_steps = 7\nlr_scheduler_type = \"constant_with_warmup\"")), "");
}

TEST(Validate, AdafactorHasNoBetasAndAFusedUpdateNothingToClipOrSum) {
  const auto with = [](const std::string& lines) { return refusal_of(least_with("training", lines)); };
  const std::string adafactor = "optimizer = \"adafactor\"\n", fused = "fused_update = true\nmax_grad_norm = 0.0\n";
  for (const char* key : {"adam_beta1 = 0.5", "adam_beta2 = 0.5", "adam_epsilon = 0.5"}) {
    EXPECT_NE(with(adafactor + key).find("does not apply to optimizer = \"adafactor\"; remove it"), std::string::npos);
    EXPECT_EQ(with(key), "");
  }
  EXPECT_EQ(with(adafactor + fused), "");
  EXPECT_NE(with(fused).find("applies only to optimizer = \"adafactor\""), std::string::npos);
  EXPECT_NE(with(adafactor + "fused_update = true").find("set training.max_grad_norm = 0.0"), std::string::npos);
  EXPECT_NE(with(adafactor + fused + "gradient_accumulation_steps = 2").find("no gradients that could be accumulated"),
            std::string::npos);
  EXPECT_NE(refusal_of(least_with("training", adafactor + fused) + "\n[distributed]\nworld_size = 2")
                .find("no gradients that could be summed over ranks"),
            std::string::npos);
}

TEST(Validate, KeysOfOneScheduleAreRefusedBesideAnother) {
  const auto with = [](const std::string& kind, const std::string& line) {
    return refusal_of(least_with("training", "lr_scheduler_type = \"" + kind + "\"\n" + line));
  };
  const struct {
    const char *kind, *key, *value;
  } keys[] = {{"polynomial", "lr_end", "1e-8"},
              {"cosine_with_restarts", "lr_num_cycles", "2"},
              {"inverse_sqrt", "lr_timescale", "100"},
              {"cosine_with_min_lr", "min_lr_ratio", "0.1"}};
  for (const auto& [kind, key, value] : keys) {
    const std::string line = std::string(key) + " = " + value;
    EXPECT_EQ(with(kind, line), "") << line;
    EXPECT_EQ(with("cosine", line), std::string("test.toml:7:") + std::to_string(std::string(key).size() + 4) +
                                        ": training." + key + " applies only to lr_scheduler_type = \"" + kind +
                                        "\"; remove it, or use that schedule");
  }
  EXPECT_NE(with("polynomial", "lr_end = 1e-5").find("lr_end is not below training.learning_rate"), std::string::npos);
  EXPECT_NE(with("cosine_with_min_lr", "").find("needs training.min_lr_ratio"), std::string::npos);
  for (const char* kind : {"polynomial", "polynomial_jump"}) EXPECT_EQ(with(kind, "lr_power = 0.5"), "");
  EXPECT_NE(with("cosine", "lr_power = 0.5").find("\"polynomial\" or \"polynomial_jump\"; remove it, or use one"),
            std::string::npos);
}

TEST(Validate, AStartOfTheWarmUpNeedsAWarmUpThatHasOne) {
  const auto with = [](const std::string& lines) { return refusal_of(least_with("training", lines)); };
  EXPECT_EQ(with("warmup_steps = 2\nwarmup_start_ratio = 0.1"), "");
  EXPECT_NE(with("warmup_start_ratio = 0.1").find("nothing warms up; set training.warmup_ratio"), std::string::npos);
  EXPECT_NE(with("lr_scheduler_type = \"polynomial_jump\"\nwarmup_ratio = 0.5\nwarmup_start_ratio = 0.1")
                .find("warms up from 0; remove it"),
            std::string::npos);
}

TEST(Validate, IntervalsFollowTheirStepsUnlessWritten) {
  const auto training_with = [](const std::string& lines) {
    return settings_of(least_with("training", lines)).training;
  };
  EXPECT_EQ(training_with("").eval_strategy, Interval::kNo);
  EXPECT_EQ(training_with("").save_strategy, Interval::kSteps);
  EXPECT_EQ(training_with("").save_steps, 500);
  EXPECT_EQ(training_with("eval_steps = 3").eval_strategy, Interval::kSteps);
  EXPECT_EQ(training_with("save_steps = 0").save_strategy, Interval::kNo);
  EXPECT_EQ(training_with("save_strategy = \"epoch\"").save_steps, 0);
  EXPECT_EQ(training_with("eval_strategy = \"steps\"\nlogging_steps = 7").eval_steps, 7);
  EXPECT_EQ(training_with("eval_strategy = \"epoch\"").eval_steps, 0);
  EXPECT_EQ(refusal_of(least_with("training", "eval_strategy = \"epoch\"\neval_steps = 3")),
            "test.toml:7:14: training.eval_steps is set, but training.eval_strategy is not \"steps\"; remove one");
  EXPECT_NE(refusal_of(least_with("training", "save_strategy = \"steps\"\nsave_steps = 0")).find("save_steps = 0"),
            std::string::npos);
}

TEST(Validate, ABestEvaluationNeedsEvaluationsAndItsCheckpoints) {
  const auto with = [](const std::string& lines) {
    std::string text = least_with("training", lines);
    return text.insert(text.find("[data]\n") + 7, "validation_file = \"v\"\n");
  };
  const TrainingSettings best =
      settings_of(with("load_best_model_at_end = true\neval_steps = 3\nsave_steps = 6")).training;
  EXPECT_EQ(best.metric_for_best_model, "loss");
  EXPECT_FALSE(best.greater_is_better);
  const std::string metric = "eval_strategy = \"epoch\"\nmetric_for_best_model = ";
  EXPECT_TRUE(settings_of(with(metric + "\"accuracy\"")).training.greater_is_better);
  const auto masked_lm = [&](const std::string& lines) {
    std::string text = with(lines);
    return text.insert(text.find("[model]\n") + 8,
                       "head = \"masked_lm\"\n");  // which has a figure that is better when smaller
  };
  EXPECT_FALSE(settings_of(masked_lm(metric + "\"eval_perplexity\"")).training.greater_is_better);
  EXPECT_TRUE(settings_of(masked_lm(metric + "\"accuracy\"")).training.greater_is_better);
  EXPECT_FALSE(settings_of(with(metric + "\"accuracy\"\ngreater_is_better = false")).training.greater_is_better);
  EXPECT_EQ(settings_of(with("eval_steps = 3\nearly_stopping_patience = 2")).training.metric_for_best_model, "loss");

  const auto refused = [&](const std::string& lines, const std::string& what) {
    EXPECT_NE(refusal_of(with(lines)).find(what), std::string::npos) << lines << "\n" << refusal_of(with(lines));
  };
  refused("load_best_model_at_end = true\neval_steps = 3\nsave_steps = 4", "save_steps to be a multiple of");
  refused("load_best_model_at_end = true\neval_strategy = \"epoch\"", "to be the same");
  refused("load_best_model_at_end = true\nsave_steps = 0", "needs evaluations");
  refused("early_stopping_patience = 2", "needs evaluations");
  refused("metric_for_best_model = \"loss\"", "needs evaluations");
  refused("early_stopping_threshold = 0.5", "without training.early_stopping_patience");
  refused("greater_is_better = true", "is set without training.metric_for_best_model");
  EXPECT_NE(refusal_of(least_with("training", "load_best_model_at_end = true\neval_steps = 3\nsave_steps = 3"))
                .find("data.validation_file is missing"),
            std::string::npos);
}

TEST(Validate, LabelsBelongToMatchingAndColumnsDiffer) {
  EXPECT_NE(refusal_of(least_with("data", "label_column = \"l\"")).find("image_text_matching"), std::string::npos);
  EXPECT_EQ(refusal_of("model.head = \"image_text_matching\"\nmodel.model_name_or_path = \"m\"\n"
                       "training.output_dir = \"o\"\n[data]\ntrain_file = \"t\"\nlabel_column = \"l\"\n"),
            "");
  EXPECT_NE(refusal_of(least_with("data", "caption_column = \"image\"")).find("must be different columns"),
            std::string::npos);
}

TEST(Validate, OnlyHeadsThatReadWordsLabelAllTheirTokens) {
  EXPECT_NE(
      refusal_of(least_with("data", "label_all_tokens = true"))
          .find("only the head \"masked_lm\" reads words with tags; remove it, or set model.head = \"masked_lm\""),
      std::string::npos);
}

TEST(Validate, TextsOfAPairNeedAHeadThatReadsThemAndColumnsOfTheirOwn) {
  EXPECT_NE(refusal_of(least_with("data", "text_pair_column = \"b\"")).find("only the head \"masked_lm\" reads pairs"),
            std::string::npos);
  const auto pairs = [](const std::string& columns) {
    std::string text = least_with("model", "head = \"masked_lm\"");
    return refusal_of(text.insert(text.find("[data]\n") + 7, columns));
  };
  EXPECT_EQ(pairs("text_column = \"a\"\ntext_pair_column = \"b\"\n"), "");
  EXPECT_NE(pairs("text_column = \"a\"\ntext_pair_column = \"a\"\n").find("must be different columns"),
            std::string::npos);
}

TEST(Validate, TextsThatAreEmbeddedNeedAHeadAndColumnsOfTheirOwn) {
  const auto refused = [](const std::string& lines) {
    return refusal_of("model.model_name_or_path = \"m\"\ntraining.output_dir = \"o\"\ndata.train_file = \"t\"\n" +
                      lines);
  };
  const std::string head = "model.head = \"masked_lm\"\ndata.text_column = \"a\"\n",
                    pair = head + "data.text_pair_column = \"b\"\n";
  EXPECT_NE(refused("data.prompts = [\"q: \"]\n").find("only the head \"masked_lm\" embeds texts"), std::string::npos);
  EXPECT_NE(refused("data.negative_columns = [\"c\"]\n").find("only the head \"masked_lm\" embeds texts"),
            std::string::npos);
  EXPECT_NE(refused(head + "data.negative_columns = [\"c\"]\n").find("but data.text_pair_column is not"),
            std::string::npos);
  EXPECT_EQ(refused(pair + "data.negative_columns = [\"c\", \"d\"]\ndata.prompts = [\"\", \"x\", \"\", \"y\"]\n"), "");
  for (const char* const taken : {"a", "b"})
    EXPECT_NE(refused(pair + "data.negative_columns = [\"c\", \"" + taken + "\"]\n")
                  .find(std::string("names \"") + taken + "\", which another column key names too"),
              std::string::npos);
  EXPECT_NE(refused(pair + "data.negative_columns = [\"c\", \"c\"]\n").find("another column key names too"),
            std::string::npos);
  EXPECT_NE(refused(pair + "data.negative_columns = [\"\"]\n").find("has an empty name"), std::string::npos);
  EXPECT_NE(refused(pair + "data.prompts = [\"q: \"]\n").find("data.prompts has 1 text, but a row has 2 text columns"),
            std::string::npos);
}

TEST(Validate, LossesOfEmbeddingsReadScoresOrNegatives) {
  const std::string pair =
      "model.head = \"masked_lm\"\nmodel.model_name_or_path = \"m\"\ntraining.output_dir = \"o\"\ndata.train_file = "
      "\"t\"\n"
      "data.text_column = \"a\"\ndata.text_pair_column = \"b\"\n";
  for (const std::string loss : {"cosent", "cosine_similarity"}) {
    const std::string scores = pair + "training.loss = \"" + loss + "\"\n";
    EXPECT_NE(refusal_of(scores).find("training.loss compares scores, but data.label_column is not set"),
              std::string::npos);
  }
  EXPECT_EQ(refusal_of(pair + "training.loss = \"multiple_negatives_symmetric_ranking\"\n"), "");
  EXPECT_EQ(refusal_of(pair + "data.negative_columns = [\"c\"]\n"), "");
}

TEST(Validate, MixingNeedsClassesOfSamplesAndPairs) {
  const std::string head =
      "model.head = \"image_text_matching\"\nmodel.model_name_or_path = \"m\"\ntraining.output_dir = \"o\"\n"
      "data.train_file = \"t\"\n";
  for (const std::string key : {"data.mixup_alpha", "data.cutmix_alpha"}) {
    EXPECT_EQ(refusal_of(head + key + " = 0.8\n"), "");
    EXPECT_NE(refusal_of(head + key + " = 0.05\n").find(key + " is below 0.1"), std::string::npos);
    const std::string odd = head + key + " = 0.8\ntraining.per_device_train_batch_size = 7\n";
    EXPECT_NE(refusal_of(odd).find("= 7 is odd, but " + key + " mixes samples in pairs"), std::string::npos);
    EXPECT_EQ(refusal_of(odd + "training.do_train = false\ndata.test_file = \"t\"\n"), "");
  }
  EXPECT_NE(refusal_of(least_with("data", "mixup_alpha = 0.8")).find("only the head \"image_text_matching\" mixes"),
            std::string::npos);
}

TEST(Validate, PictureKeysThatWouldDoNothingAreRefused) {
  for (const char* const line :
       {"augment = \"crop_flip\"", "rand_augment_num_ops = 2", "color_jitter_brightness = 0.4",
        "color_jitter_contrast = 0.4", "color_jitter_saturation = 0.4", "color_jitter_hue = 0.1",
        "random_erasing_probability = 0.5", "interpolation = \"bilinear\"", "eval_crop_ratio = 0.9"}) {
    EXPECT_EQ(refusal_of(least_with("data", line)), "");
    const std::string refusal = refusal_of(least_with("data", line + std::string("\npreprocessing = \"processor\"")));
    EXPECT_NE(refusal.find("data.preprocessing = \"processor\" leaves no choice"), std::string::npos) << refusal;
  }
  for (const char* const line : {"random_resized_crop_scale = [0.5, 1.0]", "random_resized_crop_ratio = [1, 1]"}) {
    EXPECT_EQ(refusal_of(least_with("data", line + std::string("\naugment = \"crop_flip\""))), "");
    EXPECT_NE(refusal_of(least_with("data", line)).find("applies only to data.augment = \"crop_flip\""),
              std::string::npos);
  }
  for (const char* const line : {"rand_augment_magnitude = 5", "rand_augment_num_magnitude_bins = 11"}) {
    EXPECT_EQ(refusal_of(least_with("data", line + std::string("\nrand_augment_num_ops = 1"))), "");
    EXPECT_NE(refusal_of(least_with("data", line)).find("applies only to data.rand_augment_num_ops of 1 or more"),
              std::string::npos);
  }
  for (const char* const line : {"random_erasing_scale = [0.1, 0.2]", "random_erasing_ratio = [1, 1]"}) {
    EXPECT_EQ(refusal_of(least_with("data", line + std::string("\nrandom_erasing_probability = 1.0"))), "");
    EXPECT_NE(refusal_of(least_with("data", line)).find("applies only to data.random_erasing_probability above 0"),
              std::string::npos);
  }
}

TEST(Validate, RandAugmentHasAsManyMagnitudesAsBins) {
  EXPECT_EQ(refusal_of(least_with("data", "rand_augment_num_ops = 2\nrand_augment_magnitude = 30")), "");
  EXPECT_NE(refusal_of(least_with("data", "rand_augment_num_ops = 2\nrand_augment_magnitude = 31"))
                .find("data.rand_augment_magnitude = 31: there are 31 bins, counted from 0"),
            std::string::npos);
}

TEST(Validate, TheOutputFolderIsNotTheModelsFolder) {
  EXPECT_NE(refusal_of("[model]\nmodel_name_or_path = \"a/m\"\n[data]\ntrain_file = \"t\"\n"
                       "[training]\noutput_dir = \"a/../a/m/\"\n")
                .find("would overwrite it"),
            std::string::npos);
}

TEST(Validate, GatheredNegativesBelongToTheContrastiveHead) {
  const std::string text = least_with("model", "head = \"masked_lm\"") + "gather_negatives = true\n";
  EXPECT_NE(refusal_of(text).find("only the contrastive head"), std::string::npos);
}

TEST(Validate, LabelSmoothingNeedsClasses) {
  for (const char* const head : {"image_text_matching", "masked_lm"}) {
    const std::string text =
        least_with("model", std::string("head = \"") + head + "\"") + "label_smoothing_factor = 0.1\n";
    EXPECT_EQ(settings_of(text).training.label_smoothing_factor, 0.1);
  }
  const std::string refusal = refusal_of(kLeast + std::string("label_smoothing_factor = 0.1\n"));
  EXPECT_NE(refusal.find("training.label_smoothing_factor is set, but the contrastive head has no classes"),
            std::string::npos);
  EXPECT_EQ(settings_of(kLeast + std::string("label_smoothing_factor = 0.0\n")).training.label_smoothing_factor, 0.0);
}

}  // namespace
}  // namespace bascule
