// SPDX-License-Identifier: Apache-2.0
// Settings of a run that draws: read, printed, kept, sealed; and which do not go together.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/read_canonical.h"
#include "src/settings/resume_rules.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

const std::string kModel = "[model]\nmodel_name_or_path = \"sd-pipeline\"\n";
const std::string kDraw = kModel + "[draw]\noutput_dir = \"o\"\n";
const std::string kLeastDraw = kDraw + "prompts = [\"a cat\"]\n";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(DrawingSettings, HaveDefaults) {
  const Settings s = settings_of(kLeastDraw);
  EXPECT_TRUE(s.draw.is_given);
  EXPECT_EQ(s.draw.prompts, std::vector<std::string>{"a cat"});
  EXPECT_EQ(s.run.output_dir.resolved, "/place/o");
  EXPECT_EQ(s.run.seed, 42);
  EXPECT_EQ(s.draw.num_images_per_prompt, 1);
  EXPECT_EQ(s.draw.batch_size, 1);
  EXPECT_EQ(s.draw.num_inference_steps, 50);
  EXPECT_EQ(s.draw.guidance_scale, 7.5);
  EXPECT_EQ(s.draw.scheduler, "default");
  EXPECT_TRUE(s.draw.png_text);
  EXPECT_EQ(s.draw.resume, ResumeDrawing::kAuto);
  EXPECT_FALSE(settings_of(kLeast).draw.is_given);
}

TEST(DrawingSettings, PrintedReadBackToTheSame) {
  const Settings once = settings_of(
      kDraw +
      "prompts_file = \"p.jsonl\"\nnegative_prompt = \"blurry \\\"x\\\"\"\nnum_images_per_prompt = 3\nbatch_size = 4\n"
      "height = 256\nwidth = 512\nnum_inference_steps = 20\nguidance_scale = 3.5\nscheduler = \"euler\"\n"
      "timestep_spacing = \"trailing\"\nlatents_file = \"l.safetensors\"\npng_text = false\n"
      "throughput_warmup_batches = 1\nresume = \"never\"\n[machine]\nthreads = 2\n");
  const std::string printed = print_settings(once);
  for (const char* table : {"[data]", "[training]", "[media_engine]", "[generation]"})
    EXPECT_FALSE(has(printed, table)) << table;
  for (const char* line : {"prompts = []\n", "prompts_file = \"p.jsonl\"\n", "resume = \"never\"\n", "width = 512\n",
                           "latents_file = \"l.safetensors\"\n", "guidance_scale = 3.5\n", "png_text = false\n"})
    EXPECT_TRUE(has(printed, line)) << line;
  for (const char* idle : {"\nseed = ", "\nhead = ", "\nfreeze = ", "\ndropout = ", "\nimage_size = ",
                           "\nstep_seconds = ", "\nproducts = ", "\ntensorboard = ", "\nprofile = ", "\nhash_steps = "})
    EXPECT_FALSE(has(printed, idle)) << idle;
  EXPECT_TRUE(has(printed, "\nprecision = \"float32\"\n"));
  const Settings canonical = read_canonical_settings(printed, "bascule.json", test_words("sd-pipeline"));
  EXPECT_EQ(print_settings(canonical), printed);
  EXPECT_EQ(settings_digest(canonical), settings_digest(once));
  EXPECT_EQ(refusal_of(printed), "");
  EXPECT_EQ(print_settings(settings_of(printed)), printed);
}

TEST(DrawingSettings, ThePrintedFormIsASettingsFile) {
  for (const char* keys :
       {"prompts = [\"a\", \"b \\\"c\\\"\"]\nseed = 7\n", "prompts_file = \"p.txt\"\nresume = \"never\"\n"}) {
    const Settings once = settings_of(kDraw + keys);
    const std::string printed = print_settings(once);
    ASSERT_EQ(refusal_of(printed), "");
    const Settings again = settings_of(printed);
    EXPECT_EQ(print_settings(again), printed);
    EXPECT_EQ(settings_digest(again), settings_digest(once));
  }
}

// What the pictures depend on, and nothing else.
TEST(DrawingSettings, TheDigestCountsWhatChangesPictures) {
  const std::string digest = settings_digest(settings_of(kLeastDraw));
  for (const char* line : {"negative_prompt = \"blurry\"", "num_images_per_prompt = 2", "height = 64", "width = 64",
                           "num_inference_steps = 49", "guidance_scale = 7.0", "scheduler = \"ddim\"",
                           "timestep_spacing = \"leading\"", "seed = 43", "latents_file = \"l\"", "png_text = false"})
    EXPECT_NE(settings_digest(settings_of(kLeastDraw + line + "\n")), digest) << line;
  for (const char* line : {"batch_size = 8", "throughput_warmup_batches = 0", "resume = \"never\"",
                           "[machine]\nthreads = 1", "[machine]\nisa = \"avx2\"", "[report]\nhtml = false"})
    EXPECT_EQ(settings_digest(settings_of(kLeastDraw + line + "\n")), digest) << line;
}

TEST(DrawingSettings, RulesNameTheKeysThatARunHas) {
  bool has_seed = false;
  for (const KeyRule& rule : resume_rules(settings_of(kLeastDraw))) {
    EXPECT_EQ(rule.key.rfind("training.", 0), std::string::npos) << rule.key;
    EXPECT_EQ(rule.key.rfind("data.", 0), std::string::npos) << rule.key;
    if (rule.key == "draw.batch_size") {
      EXPECT_STREQ(rule.word, "yes");
    }
    if (rule.key != "draw.seed") continue;
    has_seed = true;
    EXPECT_STREQ(rule.word, "no");
    EXPECT_EQ(rule.value, "42");
  }
  EXPECT_TRUE(has_seed);
  for (const KeyRule& rule : resume_rules(settings_of(kLeast))) EXPECT_NE(rule.key.substr(0, 5), "draw.") << rule.key;
  for (const Key& key : all_keys()) {
    if (key.table == std::string(kDrawTable)) {
      EXPECT_TRUE(is_present(key, settings_of(kLeastDraw))) << key.name;
    }
  }
}

// Seed and folder have a key in [training] and one in [draw].
TEST(DrawingSettings, AChangedSeedIsOneChange) {
  for (const auto& [text, key] : {std::pair{std::string(kLeast), "training.seed"}, {kLeastDraw, "draw.seed"}}) {
    const Settings before = settings_of(text);
    Settings now = before;
    now.run.seed = 7;
    const std::vector<SettingChange> changes = setting_changes(number_keys(before), other_keys(before), now);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].key, key);
  }
}

TEST(DrawingSettings, AreSealedWithTheirTable) {
  const Settings read = settings_of(kLeastDraw + "seed = 9\n");
  const std::string toml = print_settings(read);
  const Settings sealed = read_sealed_settings({"x.toml", "", "", toml.c_str(), "draw.seed :6:8\n"}, test_words);
  EXPECT_TRUE(sealed.draw.is_given && sealed.words.draws);
  EXPECT_EQ(print_settings(sealed), toml);
  EXPECT_EQ(sealed.run.seed, 9);
  EXPECT_EQ(where_written(sealed, "draw.seed"), "x.toml:6:8");
  EXPECT_TRUE(has(sealed_source(read, "x.toml"), "prompts = ["));
}

TEST(DrawingSettings, ContradictionsAreRefusedWithWhatToDo) {
  const std::tuple<std::string, const char*> kFiles[] = {
      {kDraw, "test.toml:3:1: [draw] has neither prompts nor prompts_file; write prompts = "},
      {kDraw + "prompts = []\n", "[draw] has neither prompts nor prompts_file"},
      {kLeastDraw + "prompts_file = \"p\"\n", "test.toml:6:16: draw.prompts and draw.prompts_file are both set"},
      {kModel + "[draw]\nprompts = [\"a\"]\n", "draw.output_dir is missing"},
      {"[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n", "model.model_name_or_path is missing"},
      {kLeastDraw + "[training]\nmax_steps = 3\n", "test.toml:6:1: [training] stands beside [draw]"},
      {kLeastDraw + "[training]\n", "[training] stands beside [draw]"},
      {kLeastDraw + "[[training.groups]]\nmatch = \"a\"\n", "[training] stands beside [draw]"},
      {kLeastDraw + "[data]\ntrain_file = \"t\"\n", "[data] stands beside [draw]"},
      {kLeastDraw + "[media_engine]\nmemory_mib = 64\n", "[media_engine] stands beside [draw]"},
      {kLeastDraw + "[media_engine.simulation]\n", "[media_engine] stands beside [draw]"},
      {kLeastDraw + "[generation]\nnum_beams = 2\n", "[generation] stands beside [draw]"},
      {"[model]\nmodel_name_or_path = \"m\"\n[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n",
       "test.toml:2:22: the model in /place/m draws no pictures, but the file has [draw]"},
      {kModel + "[data]\ntrain_file = \"t\"\n[training]\noutput_dir = \"o\"\n",
       "test.toml:2:22: /place/sd-pipeline holds a pipeline that draws pictures, and cannot be trained; write [draw]"},
      {kModel, "sd-pipeline holds a pipeline that draws pictures"},
      {kLeastDraw + "guidance_scale = 1.0\nnegative_prompt = \"x\"\n", "has no effect without guidance"},
      {kLeastDraw + "latents_file = \"l\"\nseed = 3\n", "draw.seed has no effect"},
      {kModel + "[draw]\nprompts = [\"a\"]\noutput_dir = \"./sd-pipeline/\"\n", "also the folder of the model"},
      {kModel + "tokenizer_name = \"t\"\n[draw]\nprompts = [\"a\"]\noutput_dir = \"t\"\n", "model or tokenizer"},
      {kModel + "head = \"masked_lm\"\n[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n", "model.head has no effect"},
      {kModel + "freeze = [\"x\"]\n[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n", "model.freeze has no effect"},
      {kModel + "head = \"x\"\n[training]\noutput_dir = \"o\"\n", "holds a pipeline that draws pictures"},
      {kModel + "freeze = []\n[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n", "model.freeze has no effect"},
      {kModel + "dropout = \"off\"\n[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n", "model.dropout has no effect"},
      {kModel + "image_size = 64\n[draw]\noutput_dir = \"o\"\nprompts = [\"a\"]\n", "model.image_size has no effect"},
      {kLeastDraw + "[distributed]\nhostfile = \"h\"\n", "distributed.hostfile has no effect in a run that draws"},
      {kLeastDraw + "[distributed]\ndistribution_strategy = \"ddp\"\n", "distribution_strategy has no effect"},
      {kLeastDraw + "[distributed]\nwire_type = \"bf16\"\n", "distributed.wire_type has no effect"},
      {kLeastDraw + "[distributed]\nbucket_mib = 4\n", "distributed.bucket_mib has no effect"},
      {kLeastDraw + "[distributed]\nsharded_stage = 2\n", "distributed.sharded_stage has no effect"},
      {kLeastDraw + "[machine]\nstep_seconds = 0.5\n", "machine.step_seconds has no effect"},
      {kLeastDraw + "[machine]\nproducts = \"onednn\"\n", "machine.products has no effect"},
      {kLeastDraw + "[report]\ntensorboard = false\n", "report.tensorboard has no effect"},
      {kLeastDraw + "[report]\nprofile = true\n", "report.profile has no effect"},
      {kLeastDraw + "[report]\nhash_steps = 1\n", "report.hash_steps has no effect"},
      {kLeastDraw + "prompt = \"a\"\n", "did you mean"},
  };
  for (const auto& [text, words] : kFiles)
    EXPECT_TRUE(has(refusal_of(text), words)) << refusal_of(text) << "\n" << text;
}

// A picture does not depend on the rank that draws it.
TEST(DrawingSettings, TheNumberOfRanksIsFreeAndNotInTheDigest) {
  const Settings one = settings_of(kLeastDraw),
                 two = settings_of(kLeastDraw + "[distributed]\nworld_size = 2\ntimeout_seconds = 5\n");
  EXPECT_EQ(two.distributed.world_size, 2);
  EXPECT_EQ(settings_digest(one), settings_digest(two));
  for (const SettingChange& change : setting_changes(number_keys(one), other_keys(one), two))
    EXPECT_EQ(change.effect, KeyEffect::kFree) << change.key;
  for (const KeyRule& rule : resume_rules(two)) {
    if (rule.key == "distributed.world_size") {
      EXPECT_EQ(rule.word, std::string("yes"));
    }
  }
}

TEST(DrawingSettings, TypesAndRangesAreRefused) {
  for (const char* line : {"prompts = \"a cat\"",
                           "prompts = [1]",
                           "num_images_per_prompt = 0",
                           "batch_size = 0",
                           "batch_size = 1025",
                           "height = -8",
                           "height = 8200",
                           "width = 512.0",
                           "num_inference_steps = 0",
                           "num_inference_steps = 1001",
                           "guidance_scale = -0.5",
                           "guidance_scale = nan",
                           "guidance_scale = 1001",
                           "scheduler = \"\"",
                           "seed = -1",
                           "png_text = 1",
                           "throughput_warmup_batches = -1",
                           "resume = \"maybe\"",
                           "resume = true",
                           "negative_prompt = []",
                           "prompts = [\"a\\u0000b\"]"}) {
    const std::string name = std::string(line).substr(0, std::string(line).find(' '));
    const std::string refusal = refusal_of(name == "prompts" ? kDraw + line + "\n" : kLeastDraw + line + "\n");
    EXPECT_TRUE(has(refusal, "draw." + name)) << line << ": " << refusal;
  }
  for (const char* line : {"num_inference_steps = 1", "num_inference_steps = 1000", "guidance_scale = 0", "height = 0",
                           "batch_size = 1024", "seed = 0"})
    EXPECT_EQ(refusal_of(kLeastDraw + line + "\n"), "") << line;
}

}  // namespace
}  // namespace bascule
