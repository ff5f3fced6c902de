// SPDX-License-Identifier: Apache-2.0
// Settings of a model that is served: read, printed, kept; and which do not go together.
#include <gtest/gtest.h>

#include <string>

#include "src/settings/keys.h"
#include "src/settings/read_canonical.h"
#include "src/settings/resume_rules.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

const std::string kServedModel = "[model]\nmodel_name_or_path = \"bert-m\"\n";
const std::string kLeastServe = kServedModel + "[serve]\n", kLeastTraining = kLeast;

bool prints(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ServingSettings, HaveDefaults) {
  const Settings s = settings_of(kLeastServe);
  EXPECT_TRUE(s.serve.is_given);
  EXPECT_FALSE(s.draw.is_given);
  EXPECT_EQ(s.serve.listen, "127.0.0.1:3000");
  EXPECT_EQ(s.serve.max_concurrent_requests, 512);
  EXPECT_EQ(s.serve.max_batch_tokens, 4096);
  EXPECT_EQ(s.serve.max_client_batch_size, 32);
  EXPECT_EQ(s.serve.payload_limit, 2'000'000);
  EXPECT_FALSE(s.serve.auto_truncate || s.serve.allow_remote_without_key);
  EXPECT_FALSE(settings_of(kLeast).serve.is_given);
}

TEST(ServingSettings, PrintedReadBackToTheSame) {
  const Settings once = settings_of(
      kLeastServe +
      "listen = \"unix:/run/a\"\nserved_model_name = \"a \\\"b\\\"\"\napi_key_file = \"key\"\nmax_batch_tokens = 512\n"
      "cors_allow_origin = [\"https://a.example\"]\nlatency_bound_ms = 50\naccess_log = \"log.jsonl\"\n"
      "access_log_requests = true\n[machine]\nthreads = 2\n");
  const std::string printed = print_settings(once);
  for (const char* line : {"listen = \"unix:/run/a\"\n", "latency_bound_ms = 50.0\n", "api_key_file = \"key\"\n",
                           "access_log_requests = true\n", "precision = \"float32\"\n", "threads = 2\n"})
    EXPECT_TRUE(prints(printed, line)) << line;
  for (const char* idle : {"[data]", "[training]", "[media_engine]", "[generation]", "[distributed]", "[report]",
                           "[draw]", "\nhead = ", "\nfrom_scratch = ", "\npooling = ", "\nproducts = "})
    EXPECT_FALSE(prints(printed, idle)) << idle;
  const Settings canonical = read_canonical_settings(printed, "bascule.json", test_words("bert-m"));
  EXPECT_EQ(print_settings(canonical), printed);
  EXPECT_EQ(settings_digest(canonical), settings_digest(once));
  EXPECT_EQ(print_settings(settings_of(printed)), printed);
}

TEST(ServingSettings, BesideTrainingAreThoseOfWhatItLeaves) {
  const Settings trains = settings_of(kLeastTraining),
                 s = settings_of(kLeastTraining + "[serve]\nauto_truncate = true\n");
  EXPECT_TRUE(trains_and_serves(s));
  EXPECT_FALSE(only_serves(s) || trains_and_serves(trains));
  EXPECT_EQ(settings_digest(s), settings_digest(trains));
  EXPECT_TRUE(setting_changes(number_keys(trains), other_keys(trains), s).empty());
  const std::string printed = print_settings(s);
  EXPECT_TRUE(prints(printed, "[training]") && prints(printed, "auto_truncate = true\n"));
  EXPECT_EQ(print_settings(settings_of(printed)), printed);
  EXPECT_TRUE(trains_and_serves(read_canonical_settings(printed, "x", s.words)));
}

TEST(ServingSettings, WhatDoesNotGoTogetherIsRefusedInOneLine) {
  const struct {
    std::string text, said;
  } cases[] = {
      {kLeastServe + "[training]\nseed = 1\n", "[training] stands beside [serve]"},
      {kLeastServe + "[training]\noutput_dir = \"o\"\n[data]\ntest_file = \"t\"\n", "that trains nothing"},
      {kLeastTraining + "[serve]\naccess_log_requests = true\n", "but no log is kept"},
      {kLeastTraining + "resume = \"never\"\n[serve]\n", "would refuse the folder that was trained"},
      {kLeastServe + "[data]\ntrain_file = \"t\"\n", "[data] stands beside [serve]"},
      {kLeastServe + "[draw]\nprompts = [\"a\"]\n", "[serve] stands beside [draw]"},
      {"[serve]\n", "model.model_name_or_path is missing"},
      {kLeastServe + "max_client_batch_size = 600\n", "is more than serve.max_concurrent_requests = 512"},
      {kLeastServe + "access_log_requests = true\n", "but no log is kept"},
      {kServedModel + "head = \"masked_lm\"\n[serve]\n", "model.head has no effect with [serve]"},
      {kLeastServe + "[report]\nhtml = false\n", "report.html has no effect with [serve]"},
      {kLeastServe + "max_batch_tokens = 0\n", "max_batch_tokens"},
      {kLeastServe + "max_batch_delay_ms = 0\n", "unknown key \"max_batch_delay_ms\" in [serve]"},
  };
  for (const auto& [text, said] : cases)
    EXPECT_TRUE(prints(refusal_of(text), said)) << refusal_of(text) << "\n" << said;
}

}  // namespace
}  // namespace bascule
