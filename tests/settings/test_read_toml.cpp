// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "src/settings/keys.h"
#include "tests/settings/read_text.h"
#include "tests/support/files.h"

namespace bascule {
namespace {

// A file of this test alone, removed at its end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("bascule_settings_" + std::to_string(::getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml")) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ReadSettings, HugePagesMayStillBeTrueOrFalse) {
  const auto pages = [](const char* value) {
    return settings_of(std::string(kLeast) + "\n[machine]\nhuge_pages = " + value + "\n").machine.huge_pages;
  };
  EXPECT_EQ(settings_of(kLeast).machine.huge_pages, HugePages::kTransparent);
  EXPECT_EQ(pages("true"), HugePages::kTransparent);
  EXPECT_EQ(pages("false"), HugePages::kOff);
  EXPECT_EQ(pages("\"transparent\""), HugePages::kTransparent);
  EXPECT_EQ(pages("\"reserved\""), HugePages::kReserved);
  EXPECT_EQ(pages("\"off\""), HugePages::kOff);
  EXPECT_NE(refusal_of(std::string(kLeast) + "\n[machine]\nhuge_pages = \"of\"\n").find("did you mean \"off\"?"),
            std::string::npos);
  // Another key of words takes none of them.
  EXPECT_NE(refusal_of(std::string(kLeast) + "\n[machine]\nisa = true\n").find("machine.isa"), std::string::npos);
}

TEST(ReadSettings, TheLeastFileGetsEveryDefault) {
  const Settings s = settings_of(kLeast);
  EXPECT_EQ(s.model.head, "contrastive");
  EXPECT_EQ(s.model.freeze, std::vector<std::string>{"text_pooler"});
  EXPECT_EQ(s.data.max_seq_length, 128);
  EXPECT_EQ(s.run.seed, 42);
  EXPECT_EQ(s.training.num_train_epochs, 5.0);
  EXPECT_EQ(s.training.per_device_train_batch_size, 40);
  EXPECT_EQ(s.training.learning_rate, 1e-5);
  EXPECT_EQ(s.training.adam_epsilon, 1e-8);
  EXPECT_EQ(s.training.save_steps, 500);
  EXPECT_EQ(s.distributed.timeout_seconds, 60);
  EXPECT_EQ(s.machine.threads, 0);
  EXPECT_FALSE(s.media_engine.simulation.is_given);
}

// Keys of one type beside each other in a table, each with a value of its own: none may land in its neighbour.
TEST(ReadSettings, EveryNumberReachesItsMember) {
  const Settings s = settings_of(
      "model.model_name_or_path = 'm'\ndata.train_file = 't'\ntraining.output_dir = 'o'\n"
      "data.max_seq_length = 11\n"
      "data.dataloader_num_workers = 12\n"
      "data.ring_slots = 13\n"
      "data.mlm_probability = 0.21\n"
      "data.negative_fraction = 0.22\n"
      "media_engine.queue_depth = 14\n"
      "media_engine.memory_mib = 15\n"
      "media_engine.max_megapixels = 16\n"
      "distributed.world_size = 17\n"
      "distributed.bucket_mib = 18\n"
      "distributed.timeout_seconds = 19\n"
      "machine.memory_limit_gib = 0.23\n"
      "machine.step_seconds = 0.24\n"
      "machine.threads = 20\n"
      "training.seed = 31\n"
      "training.per_device_train_batch_size = 32\n"
      "training.per_device_eval_batch_size = 33\n"
      "training.warmup_steps = 34\n"
      "training.gradient_accumulation_steps = 35\n"
      "training.logging_steps = 36\n"
      "training.eval_steps = 37\n"
      "training.save_steps = 38\n"
      "training.save_total_limit = 39\n"
      "training.throughput_warmup_steps = 40\n"
      "training.num_train_epochs = 0.41\n"
      "training.learning_rate = 0.42\n"
      "training.weight_decay = 0.43\n"
      "training.adam_beta1 = 0.44\n"
      "training.adam_beta2 = 0.45\n"
      "training.adam_epsilon = 0.46\n"
      "training.max_grad_norm = 0.47\n");
  const Settings polynomial = settings_of(kLeast + std::string("lr_scheduler_type = \"polynomial\"\nlr_power = 2.5\n"
                                                               "lr_end = 1e-9\n"));
  EXPECT_EQ(polynomial.training.lr_power, 2.5);
  EXPECT_EQ(polynomial.training.lr_end, 1e-9);
  EXPECT_EQ(s.data.max_seq_length, 11);
  EXPECT_EQ(s.data.dataloader_num_workers, 12);
  EXPECT_EQ(s.data.ring_slots, 13);
  EXPECT_EQ(s.data.mlm_probability, 0.21);
  EXPECT_EQ(s.data.negative_fraction, 0.22);
  EXPECT_EQ(s.media_engine.queue_depth, 14);
  EXPECT_EQ(s.media_engine.memory_mib, 15);
  EXPECT_EQ(s.media_engine.max_megapixels, 16);
  EXPECT_EQ(s.distributed.world_size, 17);
  EXPECT_EQ(s.distributed.bucket_mib, 18);
  EXPECT_EQ(s.distributed.timeout_seconds, 19);
  EXPECT_EQ(s.machine.memory_limit_gib, 0.23);
  EXPECT_EQ(s.machine.step_seconds, 0.24);
  EXPECT_EQ(s.machine.threads, 20);
  EXPECT_EQ(s.run.seed, 31);
  EXPECT_EQ(s.training.per_device_train_batch_size, 32);
  EXPECT_EQ(s.training.per_device_eval_batch_size, 33);
  EXPECT_EQ(s.training.warmup_steps, 34);
  EXPECT_EQ(s.training.gradient_accumulation_steps, 35);
  EXPECT_EQ(s.training.logging_steps, 36);
  EXPECT_EQ(s.training.eval_steps, 37);
  EXPECT_EQ(s.training.save_steps, 38);
  EXPECT_EQ(s.training.save_total_limit, 39);
  EXPECT_EQ(s.training.throughput_warmup_steps, 40);
  EXPECT_EQ(s.training.num_train_epochs, 0.41);
  EXPECT_EQ(s.training.learning_rate, 0.42);
  EXPECT_EQ(s.training.weight_decay, 0.43);
  EXPECT_EQ(s.training.adam_beta1, 0.44);
  EXPECT_EQ(s.training.adam_beta2, 0.45);
  EXPECT_EQ(s.training.adam_epsilon, 0.46);
  EXPECT_EQ(s.training.max_grad_norm, 0.47);
}

TEST(ReadSettings, PhasesAreOnIfTheirFileIsGivenUnlessWritten) {
  const Settings least = settings_of(kLeast);
  EXPECT_TRUE(least.training.do_train);
  EXPECT_FALSE(least.training.do_eval);
  EXPECT_TRUE(settings_of(least_with("data", "validation_file = \"v.csv\"")).training.do_eval);
  EXPECT_TRUE(settings_of(least_with("data", "test_file = \"v.csv\"")).training.do_predict);
  const std::string off = least_with("data", "validation_file = \"v.csv\"") + "do_train = false\n";
  EXPECT_FALSE(settings_of(off).training.do_train);
}

TEST(ReadSettings, RelativePathsAreTakenFromTheFilesFolder) {
  const Settings s = settings_of(least_with("data", "validation_file = \"../v/./v.csv\"\ntest_file = \"/abs/t.csv\""));
  EXPECT_EQ(s.model.model_name_or_path.written, "m");
  EXPECT_EQ(s.model.model_name_or_path.resolved, "/place/m");
  EXPECT_EQ(s.data.validation_file.written, std::vector<std::string>{"../v/./v.csv"});
  EXPECT_EQ(s.data.validation_file.start, "/place");
  EXPECT_EQ(s.model.tokenizer_name.resolved, "/place/m");
}

TEST(ReadSettings, FilesOfASplitAreAPathOrAList) {
  const auto files = [](const std::string& value) {
    return settings_of(least_with("data", "validation_file = " + value)).data.validation_file;
  };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(files("\"v.csv\"").written, Paths{"v.csv"});
  EXPECT_EQ(files("[\"v.csv\"]").written, Paths{"v.csv"});
  EXPECT_EQ(files("[\"b.csv\", \"a-*.jsonl\"]").written, (Paths{"b.csv", "a-*.jsonl"}));
  EXPECT_EQ(files("[\"b.csv\", \"a.csv\"]").text(), "b.csv, a.csv");
  EXPECT_EQ(files("[\"1\", \"2\", \"3\", \"4\", \"5\"]").text(), "1, 2, 3 and 2 more");
  EXPECT_FALSE(files("\"\"").is_given());
  EXPECT_TRUE(settings_of(least_with("data", "validation_file = [\"v.csv\"]")).training.do_eval);
}

TEST(ReadSettings, AListOfFilesHasPathsOnly) {
  for (const auto& [value, line] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[]", "test.toml:4:13: data.test_file is an empty list; name a file, or remove the key"},
           {"[\"a.csv\", \"\"]", "test.toml:4:23: data.test_file contains an empty path; remove it"},
           {"[\"a.csv\", 5]",
            "test.toml:4:23: data.test_file: 5 is an integer; write a path as a string, or a list of paths"},
           {"5", "test.toml:4:13: data.test_file = 5 is an integer; write a path as a string, or a list of paths"},
           {"[\"a.csv\", \"~/b.csv\"]",
            "test.toml:4:23: data.test_file = \"~/b.csv\": \"~\" is not expanded: only a shell does that; write the "
            "full path"}}) {
    EXPECT_EQ(refusal_of(least_with("data", std::string("test_file = ") + value)), line);
  }
}

TEST(ReadSettings, ResumeIsAWordOrAPathWithASlash) {
  const auto run = [](const std::string& value) {
    return settings_of(least_with("training", "resume = \"" + value + "\"")).run;
  };
  EXPECT_EQ(run("auto").resume, Resume::kAuto);
  EXPECT_EQ(run("older").resume, Resume::kOlder);
  EXPECT_FALSE(run("older").resume_checkpoint.is_given());
  EXPECT_EQ(run("../other/checkpoint-5/").resume, Resume::kCheckpoint);
  EXPECT_EQ(run("../other/checkpoint-5/").resume_checkpoint.resolved, "/other/checkpoint-5");
  EXPECT_EQ(run("/abs/best").resume_checkpoint.resolved, "/abs/best");
  EXPECT_EQ(refusal_of(least_with("training", "resume = \"checkpoint-5\"")),
            "test.toml:6:10: training.resume: \"checkpoint-5\" is not a valid value; allowed: \"auto\", \"never\" or "
            "\"older\", or a "
            "path with a `/`");
  EXPECT_NE(refusal_of("[model]\nmodel_name_or_path = \"m\"\n[data]\nvalidation_file = \"v\"\n"
                       "[training]\noutput_dir = \"o\"\nresume = \"./c\"\n")
                .find("training.resume names a checkpoint, but the run does not train"),
            std::string::npos);
}

TEST(ReadSettings, AFileNamesItselfAndItsFolderInEveryPath) {
  const TemporaryFile file(kLeast);
  const Settings s = read_settings(file.path(), test_words);
  const auto folder = std::filesystem::canonical(std::filesystem::path(file.path()).parent_path());
  EXPECT_EQ(s.run.output_dir.resolved, (folder / "o").string());
  EXPECT_EQ(where_written(s, "training.output_dir"), file.path() + ":6:14");
  EXPECT_EQ(where_written(s, "training.seed"), file.path());
}

TEST(ReadSettings, AnUnknownKeyNamesTheNearestRightOne) {
  EXPECT_EQ(refusal_of(least_with("training", "lerning_rate = 1e-5")),
            "test.toml:6:1: unknown key \"lerning_rate\" in [training]; did you mean \"learning_rate\"?");
  EXPECT_EQ(refusal_of(least_with("training", "per_device_train_batchsize = 4")),
            "test.toml:6:1: unknown key \"per_device_train_batchsize\" in [training]; did you mean "
            "\"per_device_train_batch_size\"?");
  EXPECT_EQ(refusal_of(least_with("model", "learning_rate = 1e-5")),
            "test.toml:2:1: unknown key \"learning_rate\" in [model]; it belongs in [training]");
  EXPECT_EQ(refusal_of("seed = 1\n" + std::string(kLeast)),
            "test.toml:1:1: unknown key \"seed\" outside a table; it belongs in [training]");
  EXPECT_EQ(refusal_of("sede = 1\n" + std::string(kLeast)),
            "test.toml:1:1: unknown key \"sede\" outside a table; did you mean \"seed\" in [training]?");
  // report.tracking is similar, but a key of this table is meant.
  EXPECT_EQ(refusal_of(least_with("model", "tracing = true"))
                .rfind("test.toml:2:1: unknown key \"tracing\" in [model]; keys of [model]: model_name_or_path, ", 0),
            0U);
  EXPECT_EQ(
      refusal_of(least_with("report", "qqqqqqqq = 1")),
      "test.toml:8:1: unknown key \"qqqqqqqq\" in [report]; keys of [report]: tensorboard, html, profile, hash_steps, "
      "status_seconds, tracking, tracking_dir, mlperf_log");
}

TEST(ReadSettings, AnUnknownTableNamesTheNearestRightOne) {
  EXPECT_EQ(refusal_of(least_with("trainig", "seed = 1")),
            "test.toml:7:2: unknown table [trainig]; did you mean [training]?");
  EXPECT_NE(refusal_of(std::string(kLeast) + "[[report]]\nhtml = true\n").find("report is a list"), std::string::npos);
  EXPECT_NE(refusal_of("model = 3\n").find("test.toml:1:9: model is an integer; write [model]"), std::string::npos);
}

TEST(ReadSettings, AWrongTypeSaysWhatWasFoundAndWhatIsAllowed) {
  EXPECT_EQ(refusal_of(least_with("data", "ring_slots = \"3\"")),
            "test.toml:4:14: data.ring_slots = \"3\" is a string; write an integer from 2 to 1024");
  EXPECT_EQ(refusal_of(least_with("data", "ring_slots = 3.0")),
            "test.toml:4:14: data.ring_slots = 3 is a float; write an integer from 2 to 1024");
  EXPECT_EQ(refusal_of(least_with("training", "do_train = 1")),
            "test.toml:6:12: training.do_train = 1 is an integer; write true or false");
  EXPECT_EQ(refusal_of(least_with("model", "freeze = \"text_pooler\"")),
            "test.toml:2:10: model.freeze = \"text_pooler\" is a string; write a list of any of \"vision_model\", "
            "\"text_model\" or \"text_pooler\"");
  EXPECT_EQ(refusal_of(least_with("model", "head = [1]")).find("test.toml:2:8: model.head is a list; write"), 0U);
  EXPECT_EQ(refusal_of(least_with("training", "seed = 1979-05-27")).find("test.toml:6:8: training.seed is a date"), 0U);
  EXPECT_EQ(refusal_of(least_with("model", "freeze = [1]")).find("test.toml:2:11: model.freeze: 1 is an integer"), 0U);
}

TEST(ReadSettings, AValueOutOfRangeSaysTheRange) {
  EXPECT_EQ(refusal_of(least_with("data", "ring_slots = 1")),
            "test.toml:4:14: data.ring_slots = 1 is out of range; write an integer from 2 to 1024");
  EXPECT_EQ(refusal_of(least_with("training", "adam_beta1 = 1")),
            "test.toml:6:14: training.adam_beta1 = 1 is out of range; write a number from 0.0 to less than 1.0");
  EXPECT_EQ(refusal_of(least_with("data", "mlm_probability = 0")),
            "test.toml:4:19: data.mlm_probability = 0 is out of range; write a number above 0.0 to 1.0");
  for (const char* value : {"nan", "inf", "-inf", "-1e-9"}) {
    EXPECT_NE(refusal_of(least_with("training", std::string("learning_rate = ") + value)), "") << value;
  }
  EXPECT_NE(refusal_of(least_with("training", "seed = -1")), "");
  EXPECT_NE(refusal_of(least_with("data", "image_column = \"\"")), "");
}

TEST(ReadSettings, AWordOutsideItsListNamesTheNearestAndAll) {
  EXPECT_EQ(refusal_of(least_with("model", "head = \"contrastiv\"")),
            "test.toml:2:8: model.head: \"contrastiv\" is not a valid value; did you mean \"contrastive\"? allowed: "
            "\"contrastive\", \"image_text_matching\" or \"masked_lm\"");
  const std::string freeze = refusal_of(least_with("model", "freeze = [\"text_pooler\", \"vision\"]"));
  EXPECT_EQ(freeze.find("test.toml:2:26: "), 0U);
  EXPECT_NE(freeze.find("; [[training.groups]] with freeze = true freezes tensors by their names"), std::string::npos);
}

TEST(ReadSettings, AnIntegerIsAcceptedWhereANumberIsWanted) {
  EXPECT_EQ(settings_of(least_with("training", "learning_rate = 1")).training.learning_rate, 1.0);
}

TEST(ReadSettings, RequiredKeysAreNamed) {
  EXPECT_EQ(refusal_of("").find("test.toml: model.model_name_or_path is missing; write model_name_or_path = "), 0U);
  EXPECT_EQ(
      refusal_of("[model]\nmodel_name_or_path = \"\"").find("test.toml:2:22: model.model_name_or_path is missing"), 0U);
  EXPECT_EQ(refusal_of("[model]\nmodel_name_or_path = \"m\"").find("test.toml: training.output_dir is missing"), 0U);
}

TEST(ReadSettings, BrokenTomlIsNamedByLineAndColumn) {
  EXPECT_EQ(refusal_of("[model\n").find("test.toml:1:"), 0U);
  EXPECT_EQ(refusal_of(least_with("training", "seed = 1\nseed = 2")).find("test.toml:7:"), 0U);
  EXPECT_EQ(refusal_of("[model]\nhead = \"\xff\"\n").find("test.toml:2:"), 0U);
  EXPECT_EQ(refusal_of(least_with("training", "seed = 99999999999999999999")).find("test.toml:6:"), 0U);
  EXPECT_NE(refusal_of(std::string(100000, '[')), "");
}

TEST(ReadSettings, EveryPrefixOfAFileIsReadOrRefusedAsSettings) {
  const std::string whole = print_settings(settings_of(kLeast));
  for (std::size_t size = 0; size <= whole.size(); ++size) EXPECT_NE(refusal_of(whole.substr(0, size)), "wrong kind");
}

TEST(ReadSettings, AFileThatCannotBeReadIsASettingsError) {
  for (const char* path : {"/nowhere/x.toml", "/tmp", "/dev/zero", ""}) {
    EXPECT_TRUE(test::fails([&] { read_settings(path, test_words); }, "", ErrorKind::kSettings)) << path;
  }
}

TEST(ReadSettings, AMegabyteThatIsNoSettingsFileGivesAShortLine) {
  EXPECT_LT(refusal_of(std::string(1000000, 'x') + " = 1\n").size(), 400U);
  EXPECT_LT(refusal_of(least_with("model", "head = \"" + std::string(1000000, 'x') + "\"")).size(), 400U);
}

}  // namespace
}  // namespace bascule
