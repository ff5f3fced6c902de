// SPDX-License-Identifier: Apache-2.0
// Which file of a folder says how texts are generated, and what its keys mean.
#include "src/generate/generation_config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr char kModel[] =
    R"({"decoder_start_token_id": 3, "pad_token_id": 2, "eos_token_id": 4, "max_length": 50, "num_beams": 6})";

GenerationConfig read(const std::string& own, const std::string& model = kModel) {
  const TemporaryFolder folder;
  folder.write("config.json", model);
  if (!own.empty()) folder.write("generation_config.json", own);
  return read_generation_config(folder.path(), 100);
}

std::string refusal(const std::string& own) {
  return test::error_of([&] { read(own); });
}

std::string refusal_of_check(const SearchOptions& options) {
  return test::error_of([&] { check_search_options(options, "here"); });
}

TEST(GenerationConfig, OldKeysOfTheModelCountWhereThereIsNoOtherFile) {
  const SearchOptions options = read("").options;
  EXPECT_EQ(options.max_length, 50);
  EXPECT_EQ(options.num_beams, 6);
  EXPECT_EQ(options.start_id, 3);
  EXPECT_EQ(options.pad_id, 2);
  EXPECT_EQ(options.end_ids, std::vector<std::int32_t>{4});
}

// None of the model's keys counts beside it, not even the length.
TEST(GenerationConfig, ItsOwnFileCountsAloneWithTransformersDefaults) {
  const GenerationConfig config = read(R"({"decoder_start_token_id": 7, "eos_token_id": [1, 9]})");
  EXPECT_EQ(config.options.max_length, 21);
  EXPECT_EQ(config.options.num_beams, 1);
  EXPECT_EQ(config.options.start_id, 7);
  EXPECT_EQ(config.options.pad_id, 0);
  EXPECT_EQ(config.options.end_ids, (std::vector<std::int32_t>{1, 9}));
  EXPECT_EQ(config.options.length_penalty, 1.0);
  EXPECT_EQ(config.options.early_stopping, EarlyStopping::kNo);
  EXPECT_TRUE(config.notes.empty());
}

TEST(GenerationConfig, AStartTokenThatIsMissingIsTheModelsAndSaid) {
  EXPECT_EQ(read(R"({"decoder_start_token_id": 0})").options.end_ids, std::vector<std::int32_t>{4});
  const GenerationConfig config = read(R"({"eos_token_id": 1})");
  EXPECT_EQ(config.options.start_id, 3);
  EXPECT_EQ(config.options.end_ids, std::vector<std::int32_t>{1});
  ASSERT_EQ(config.notes.size(), 1u);
  EXPECT_NE(config.notes[0].find("no decoder_start_token_id"), std::string::npos);
}

TEST(GenerationConfig, EveryKeyReachesItsOption) {
  const SearchOptions options =
      read(R"({"decoder_start_token_id": 0, "num_beams": 4, "max_length": 200, "min_length": 30, "length_penalty": 2.0,
               "early_stopping": true, "no_repeat_ngram_size": 3})")
          .options;
  EXPECT_EQ(options.num_beams, 4);
  EXPECT_EQ(options.max_length, 200);
  EXPECT_EQ(options.min_length, 30);
  EXPECT_EQ(options.length_penalty, 2.0);
  EXPECT_EQ(options.early_stopping, EarlyStopping::kYes);
  EXPECT_EQ(options.no_repeat_ngram_size, 3);
  EXPECT_EQ(read(R"({"decoder_start_token_id": 0, "early_stopping": "never"})").options.early_stopping,
            EarlyStopping::kNever);
}

TEST(GenerationConfig, NewTokensStandBehindTheStartTokenAndCountBeforeALength) {
  const SearchOptions options =
      read(R"({"decoder_start_token_id": 0, "max_length": 9, "max_new_tokens": 15, "min_new_tokens": 4})").options;
  EXPECT_EQ(options.max_length, 16);
  EXPECT_EQ(options.min_length, 5);
}

// Transformers' GenerationMixin._prepare_generated_length: min_length = min_new_tokens + 1, where that is not None.
TEST(GenerationConfig, TheFewestNewTokensCountBeforeALengthAlsoWhereTheyAreFewer) {
  const auto least = [](const std::string& tokens) {
    return read(R"({"decoder_start_token_id": 0, "max_length": 40, "min_length": 30)" + tokens + "}")
        .options.min_length;
  };
  EXPECT_EQ(least(""), 30);
  EXPECT_EQ(least(R"(, "min_new_tokens": null)"), 30);
  EXPECT_EQ(least(R"(, "min_new_tokens": 35)"), 36);
  EXPECT_EQ(least(R"(, "min_new_tokens": 4)"), 5);
  EXPECT_EQ(least(R"(, "min_new_tokens": 0)"), 1);
}

TEST(GenerationConfig, WhatIsNotThereIsRefusedByName) {
  for (const char* const key :
       {R"("do_sample": true)", R"("repetition_penalty": 1.2)", R"("num_return_sequences": 2)",
        R"("num_beam_groups": 2)", R"("encoder_no_repeat_ngram_size": 2)", R"("forced_bos_token_id": 5)",
        R"("forced_eos_token_id": 1)", R"("suppress_tokens": [5])", R"("renormalize_logits": true)",
        R"("begin_suppress_tokens": [5])", R"("early_stopping": "soon")", R"("num_beams": 101)", R"("num_beams": 0)",
        R"("min_length": 22)", R"("eos_token_id": 100)", R"("eos_token_id": [])", R"("eos_token_id": -1)",
        R"("max_length": -2)"}) {
    const std::string own = std::string(R"({"decoder_start_token_id": 0, )") + key + "}";
    const std::string name = std::string(key).substr(1, std::string(key).find('"', 1) - 1);
    EXPECT_NE(refusal(own).find(name), std::string::npos) << own << ": " << refusal(own);
    EXPECT_NE(refusal(own).find("generation_config.json"), std::string::npos) << refusal(own);
  }
  // Values that change nothing are no reason.
  EXPECT_EQ(refusal(R"({"decoder_start_token_id": 0, "do_sample": false, "repetition_penalty": 1, "num_beam_groups": 1,
                        "suppress_tokens": null})"),
            "no error");
  EXPECT_NE(refusal("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal("{").find("generation_config.json"), std::string::npos);
}

// Every key that is not followed, with the value that changes nothing, one that does, and the advice.
TEST(GenerationConfig, KeysThatAreNotFollowedAreRefusedUnlessTheyChangeNothing) {
  const struct {
    const char *key, *harmless, *harmful;
  } kKeys[] = {{"do_sample", "false", "true"},
               {"repetition_penalty", "1.0", "0.9"},
               {"encoder_repetition_penalty", "1.0", "1.1"},
               {"encoder_no_repeat_ngram_size", "0", "1"},
               {"diversity_penalty", "0.0", "0.5"},
               {"num_beam_groups", "1", "2"},
               {"num_return_sequences", "1", "2"},
               {"penalty_alpha", "0.0", "0.6"},
               {"guidance_scale", "1.0", "1.5"},
               {"renormalize_logits", "false", "true"},
               {"remove_invalid_values", "false", "true"},
               {"forced_decoder_ids", "null", "[[1, 2]]"},
               {"forced_bos_token_id", "null", "0"},
               {"forced_eos_token_id", "null", "1"},
               {"force_words_ids", "null", "[[1]]"},
               {"bad_words_ids", "null", "[[1]]"},
               {"constraints", "null", "[1]"},
               {"sequence_bias", "null", "[[[1], 0.5]]"},
               {"suppress_tokens", "null", "[1]"},
               {"begin_suppress_tokens", "null", "[1]"},
               {"exponential_decay_length_penalty", "null", "[5, 1.1]"},
               {"prompt_lookup_num_tokens", "null", "3"},
               {"stop_strings", "null", "[\"a\"]"},
               {"watermarking_config", "null", "{}"},
               {"dola_layers", "null", "\"low\""},
               {"token_healing", "false", "true"},
               {"max_time", "null", "1.5"}};
  for (const auto& [key, harmless, harmful] : kKeys) {
    const auto said = [name = std::string(key)](const std::string& value) {
      return refusal(R"({"decoder_start_token_id": 0, ")" + name + "\": " + value + "}");
    };
    for (const char* const value : {harmless, "null", "[]"}) EXPECT_EQ(said(value), "no error") << key << " " << value;
    EXPECT_NE(said(harmful).find(std::string(key) + " = "), std::string::npos) << key;
    EXPECT_NE(said(harmful).find(" is not supported; remove the key, or set it to " + std::string(harmless)),
              std::string::npos)
        << said(harmful);
  }
}

TEST(GenerationConfig, NumbersHaveTheirRanges) {
  const auto said = [](const std::string& members) {
    return refusal(R"({"decoder_start_token_id": 0, )" + members + "}");
  };
  for (const char* const good :
       {R"("max_new_tokens": 1)", R"("max_new_tokens": 1048575)", R"("min_new_tokens": 0)", R"("max_length": 1048576)",
        R"("length_penalty": -100)", R"("length_penalty": 100)", R"("max_length": 7, "min_length": 7)",
        R"("max_new_tokens": 7, "min_new_tokens": 7)", R"("no_repeat_ngram_size": 0)"})
    EXPECT_EQ(said(good), "no error") << good;
  for (const auto& [bad, words] :
       {std::pair{R"("max_new_tokens": 0)", "max_new_tokens = 0 is not between 1 and 1048575"},
        {R"("max_new_tokens": 1048576)", "max_new_tokens = 1048576 is not between 1 and 1048575"},
        {R"("min_new_tokens": -1)", "min_new_tokens = -1 is not between 0 and 1048575"},
        {R"("max_length": 1048577)", "max_length = 1048577 is above 1048576"},
        {R"("length_penalty": 100.5)", "length_penalty is not a number from -100 to 100"},
        {R"("length_penalty": -101)", "length_penalty is not a number from -100 to 100"},
        {R"("no_repeat_ngram_size": -1)", "no_repeat_ngram_size = -1 is below 0"},
        {R"("num_beams": 0)", "num_beams = 0 is below 1"},
        {R"("num_beams": 101)", "num_beams = 101 is above the vocabulary's 100 tokens; use fewer beams"},
        {R"("max_length": 7, "min_length": 8)", "min_length = 8 is above max_length = 7; no row could end"},
        {R"("max_new_tokens": 7, "min_new_tokens": 8)", "min_length = 9 is above max_length = 8"},
        {R"("early_stopping": "soon")", R"(early_stopping = "soon" is not valid; use false, true or "never")"}})
    EXPECT_NE(said(bad).find(words), std::string::npos) << said(bad);
}

// The keys of an old config.json that a finished folder keeps, in a file of their own.
TEST(GenerationConfig, KeepsTheKeysOfTheModelThatSayHowTextsAreWritten) {
  const TemporaryFolder folder;
  folder.write("config.json",
               R"({"decoder_start_token_id": 0, "bos_token_id": 7, "num_beams": 2, "length_penalty": 0.5,
                   "no_repeat_ngram_size": 3, "early_stopping": true, "max_new_tokens": 9, "min_new_tokens": 2,
                   "min_length": 4, "eos_token_id": [1, 5], "do_sample": true, "d_model": 4, "model_type": "t5"})");
  EXPECT_EQ(json_text(generation_config_to_write(folder.path(), nullptr, 8)),
            R"({"bos_token_id":7,"decoder_start_token_id":0,"do_sample":true,"early_stopping":true,)"
            R"("eos_token_id":[1,5],"length_penalty":0.5,"max_new_tokens":9,"min_length":4,"min_new_tokens":2,)"
            R"("no_repeat_ngram_size":3,"num_beams":2,"pad_token_id":0})");
}

TEST(GenerationConfig, IdsAloneAreReadWhereTheSettingsSayTheRest) {
  const TemporaryFolder folder;
  folder.write("config.json", kModel);
  folder.write("generation_config.json",
               R"({"decoder_start_token_id": 7, "do_sample": true, "num_beams": 9, "eos_token_id": 8})");
  const SearchOptions options = read_generation_ids(folder.path(), 100);
  EXPECT_EQ(options.start_id, 7);
  EXPECT_EQ(options.end_ids, std::vector<std::int32_t>{8});
  EXPECT_EQ(options.num_beams, 1);
}

// What is written says how the run wrote texts, and is read as that; without a run's search the start's options stay.
TEST(GenerationConfig, SaysHowARunWroteTexts) {
  const TemporaryFolder folder;
  folder.write("config.json", kModel);
  SearchOptions searched = read_generation_ids(folder.path(), 100);
  searched.num_beams = 2;
  searched.max_length = 31;
  searched.min_length = 5;
  searched.length_penalty = 0.5;
  searched.early_stopping = EarlyStopping::kNever;
  searched.no_repeat_ngram_size = 3;
  for (const char* const own :
       {"", R"({"decoder_start_token_id": 3, "eos_token_id": [4, 9], "do_sample": true, "max_new_tokens": 7,
                "min_new_tokens": 6, "_from_model_config": true, "transformers_version": "5"})"}) {
    if (*own != '\0') folder.write("generation_config.json", own);
    searched.end_ids = *own != '\0' ? std::vector<std::int32_t>{4, 9} : std::vector<std::int32_t>{4};
    const Json json = generation_config_to_write(folder.path(), &searched, 8);
    const SearchOptions options = read(json_text(json)).options;
    EXPECT_EQ(options.start_id, 3);
    EXPECT_EQ(options.pad_id, *own != '\0' ? 0 : 2);
    EXPECT_EQ(options.end_ids, searched.end_ids);
    EXPECT_EQ(options.num_beams, 2);
    EXPECT_EQ(options.max_length, 31);
    EXPECT_EQ(options.min_length, 5);
    EXPECT_EQ(options.length_penalty, 0.5);
    EXPECT_EQ(options.early_stopping, EarlyStopping::kNever);
    EXPECT_EQ(options.no_repeat_ngram_size, 3);
    EXPECT_FALSE(json.contains("_from_model_config"));
    EXPECT_EQ(json.contains("transformers_version"), *own != '\0');
    EXPECT_FALSE(json.contains("vocab_size"));
  }
}

TEST(GenerationConfig, OfARunThatWroteNothingIsTheStartsWithALength) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"decoder_start_token_id": 3, "num_beams": 6, "d_model": 4})");
  Json json = generation_config_to_write(folder.path(), nullptr, 8);
  EXPECT_EQ(json_text(json),
            R"({"decoder_start_token_id":3,"eos_token_id":1,"max_length":8,"num_beams":6,"pad_token_id":0})");
  folder.write("generation_config.json", R"({"decoder_start_token_id": 3, "max_new_tokens": 60, "do_sample": true})");
  json = generation_config_to_write(folder.path(), nullptr, 8);
  EXPECT_FALSE(json.contains("max_length"));
  EXPECT_EQ(json["max_new_tokens"], 60);
  EXPECT_EQ(json["do_sample"], true);
}

TEST(GenerationConfig, ChecksWhatTransformersWouldTake) {
  SearchOptions options;
  options.vocabulary_size = 10;
  options.max_length = 5;
  options.end_ids = {1};
  EXPECT_EQ(refusal_of_check(options), "no error");
  options.max_length = 1;
  EXPECT_EQ(refusal_of_check(options), "no error");
  options.num_beams = 10;
  EXPECT_EQ(refusal_of_check(options), "no error");
  options.num_beams = 11;
  EXPECT_NE(refusal_of_check(options).find("num_beams = 11"), std::string::npos);
  options.num_beams = 1;
  options.min_length = 2;
  EXPECT_NE(refusal_of_check(options).find("min_length = 2"), std::string::npos);
  options.min_length = 0;
  options.start_id = 10;
  EXPECT_NE(refusal_of_check(options).find("decoder_start_token_id = 10"), std::string::npos);
  options.start_id = 0;
  options.pad_id = 10;
  EXPECT_NE(refusal_of_check(options).find("pad_token_id = 10"), std::string::npos);
}

}  // namespace
}  // namespace bascule::test
