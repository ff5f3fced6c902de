// SPDX-License-Identifier: Apache-2.0
#include "src/settings/command_line_keys.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/settings/keys.h"
#include "tests/settings/read_text.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using Keys = std::vector<std::string>;

Settings with_keys(const Keys& keys, const std::string& text = kLeast) {
  return read_settings_text(text, "test.toml", "/place", keys, test_words);
}

std::string refusal_with(const Keys& keys, const std::string& text = kLeast) {
  try {
    with_keys(keys, text);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kSettings ? error.what() : "wrong kind";
  }
  return "";
}

// The current folder is another until the end of the scope.
class StandIn {
 public:
  explicit StandIn(const std::string& folder) { std::filesystem::current_path(folder); }
  ~StandIn() { std::filesystem::current_path(before_); }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

std::string here() { return std::filesystem::current_path().string(); }

TEST(CommandLineKeys, TakeThePlaceOfTheFiles) {
  const std::string file = least_with("training", "seed = 3\nmax_steps = 4");
  const Settings settings = with_keys({"training.seed=7", "report.html=false", "training.learning_rate=1e-3"}, file);
  EXPECT_EQ(settings.run.seed, 7);
  EXPECT_EQ(settings.training.max_steps, 4);
  EXPECT_FALSE(settings.report.html);
  EXPECT_EQ(settings.training.learning_rate, 1e-3);
}

TEST(CommandLineKeys, CountAsIfTheyStoodInTheFile) {
  const Settings given = with_keys({"training.seed=7", "model.head=masked_lm", "data.ring_slots=5"});
  const Settings written = settings_of(least_with("training", "seed = 7") + "[machine]\n");
  const Settings same = settings_of(
      "[model]\nmodel_name_or_path = \"m\"\nhead = \"masked_lm\"\n[data]\ntrain_file = \"t.jsonl\"\nring_slots = 5\n"
      "[training]\noutput_dir = \"o\"\nseed = 7\n");
  EXPECT_EQ(print_settings(given), print_settings(same));
  EXPECT_EQ(settings_digest(given), settings_digest(same));
  EXPECT_NE(settings_digest(given), settings_digest(written));
}

// A value that the file has wrong, or that only another model allows, does not matter where a key replaces it.
TEST(CommandLineKeys, ReplaceValuesThatTheFileHasWrong) {
  EXPECT_EQ(with_keys({"training.seed=7"}, least_with("training", "seed = \"x\"")).run.seed, 7);
  const Settings other = with_keys({"model.model_name_or_path=vit-x", "model.head=image_classification"},
                                   least_with("model", "head = \"contrastive\""));
  EXPECT_EQ(other.model.head, "image_classification");
  EXPECT_EQ(other.model.model_name_or_path.resolved, here() + "/vit-x");
}

TEST(CommandLineKeys, OneThatSetsTheLengthReplacesTheFilesOther) {
  const std::string in_epochs = least_with("training", "num_train_epochs = 3"),
                    in_steps = least_with("training", "max_steps = 4");
  const Settings steps = with_keys({"training.max_steps=7"}, in_epochs),
                 epochs = with_keys({"training.num_train_epochs=2"}, in_steps);
  EXPECT_EQ(print_settings(steps), print_settings(settings_of(least_with("training", "max_steps = 7"))));
  EXPECT_EQ(print_settings(epochs), print_settings(settings_of(least_with("training", "num_train_epochs = 2"))));
  EXPECT_EQ(with_keys(command_line_keys(steps), in_epochs).training.num_train_epochs, 0.0) << "of another process";
  EXPECT_EQ(with_keys({"training.max_steps=0"}, in_epochs).training.num_train_epochs, 3.0) << "0 sets no length";
  EXPECT_NE(refusal_with({"training.max_steps=7", "training.num_train_epochs=2"}).find("are both set"),
            std::string::npos);
}

TEST(CommandLineKeys, AreTomlOrElseStrings) {
  const Settings settings =
      with_keys({"data.caption_column=\"my text\"", "data.image_column=a # b", "model.freeze=[\"text_model\"]",
                 "data.augment=crop_flip", "data.random_resized_crop_scale=[0.1, 1]", "data.source_prefix="});
  EXPECT_EQ(settings.data.caption_column, "my text");
  EXPECT_EQ(settings.data.image_column, "a # b");
  EXPECT_EQ(settings.model.freeze, Keys{"text_model"});
  EXPECT_EQ(settings.data.augment, Augment::kCropFlip);
  EXPECT_EQ(settings.data.random_resized_crop_scale.least, 0.1);
  EXPECT_EQ(with_keys({"training.seed= 7 "}).run.seed, 7);
  EXPECT_EQ(with_keys({"training.seed=010"}).run.seed, 10) << "TOML takes no zeros before an integer";
  EXPECT_EQ(with_keys({"training.seed=000"}).run.seed, 0);
  EXPECT_EQ(with_keys({"data.caption_column=010"}).data.caption_column, "010");
  EXPECT_EQ(with_keys({"data.caption_column=1\n[report]\nhtml = false"}).data.caption_column,
            "1\n[report]\nhtml = false");
}

TEST(CommandLineKeys, ReachEveryTable) {
  const Settings settings =
      with_keys({"generation.num_beams=4", "distributed.world_size=2", "machine.threads=1",
                 "media_engine.queue_depth=3", "media_engine.simulation.units=4", "report.profile=true",
                 "model.model_name_or_path=t5-x", "data.text_column=source", "data.summary_column=target",
                 "training.predict_with_generate=true", "data.validation_file=v.jsonl"});
  EXPECT_EQ(settings.generation.num_beams, 4);
  EXPECT_EQ(settings.distributed.world_size, 2);
  EXPECT_EQ(settings.machine.threads, 1);
  EXPECT_EQ(settings.media_engine.queue_depth, 3);
  EXPECT_TRUE(settings.media_engine.simulation.is_given);
  EXPECT_EQ(settings.media_engine.simulation.units, 4);
  EXPECT_TRUE(settings.report.profile);
  const Settings draw =
      with_keys({"draw.prompts=[\"a\", \"b\"]", "draw.output_dir=o"}, "[model]\nmodel_name_or_path = \"sd-x\"\n");
  EXPECT_TRUE(draw.draw.is_given);
  EXPECT_EQ(draw.draw.prompts, (Keys{"a", "b"}));
  EXPECT_EQ(draw.run.output_dir.written, here() + "/o");
}

TEST(CommandLineKeys, GroupsAreGivenAsOneList) {
  const std::string file = std::string(kLeast) + "[[training.groups]]\nmatch = \"a\"\n";
  const Settings settings = with_keys({"training.groups=[{match = \"b*\", freeze = true}, {match = \"c\"}]"}, file);
  ASSERT_EQ(settings.training.groups.size(), 2U);
  EXPECT_EQ(settings.training.groups[0].match, "b*");
  EXPECT_TRUE(settings.training.groups[0].freeze);
  EXPECT_TRUE(with_keys({"training.groups=[]"}, file).training.groups.empty());
  const std::string list = "training.groups='[{match = \"*.bias\", freeze = true}]'";
  EXPECT_EQ(refusal_with({"training.groups.match=b"}),
            "command line: training.groups is a list of tables; write all groups as a list: " + list);
  EXPECT_EQ(refusal_with({"training.groups=b"}),
            "command line: training.groups is a string; write all groups as a list: " + list);
  EXPECT_EQ(refusal_with({"training.groups=[{match = \"x\"}, 3]"}),
            "command line: training.groups[1] is an integer; write all groups as a list: " + list);
  EXPECT_NE(refusal_of(least_with("training", "groups = []")).find("training.groups is a list; write [[training."),
            std::string::npos);
}

TEST(CommandLineKeys, PathsStartFromTheCurrentFolderAndAreKeptAbsolute) {
  const Settings settings =
      with_keys({"training.output_dir=../x/", "data.train_file=[\"a.jsonl\", \"/b/c-*.csv\"]",
                 "data.validation_file=s-{0..3}.tar,t.tar", "data.test_file=", "training.resume=r/checkpoint-3"},
                least_with("data", "test_file = \"t.jsonl\""));
  const std::string parent = std::filesystem::path(here()).parent_path().string();
  EXPECT_EQ(settings.run.output_dir.written, (parent == "/" ? "" : parent) + "/x");
  EXPECT_EQ(settings.run.output_dir.resolved, settings.run.output_dir.written);
  EXPECT_EQ(settings.data.train_file.written, (Keys{here() + "/a.jsonl", "/b/c-*.csv"}));
  EXPECT_EQ(settings.data.validation_file.written, (Keys{here() + "/s-{0..3}.tar," + here() + "/t.tar"}));
  EXPECT_FALSE(settings.data.test_file.is_given());
  EXPECT_EQ(settings.run.resume_checkpoint.written, here() + "/r/checkpoint-3");
  EXPECT_EQ(settings.model.model_name_or_path.resolved, "/place/m");
  EXPECT_EQ(
      refusal_with({"training.output_dir=~/x"}),
      "command line: training.output_dir = \"~/x\": \"~\" is not expanded: only a shell does that; write the full "
      "path");
}

TEST(CommandLineKeys, ASpaceIsPartOfTheValueAndOfNoName) {
  EXPECT_EQ(with_keys({"data.caption_column=summarize: "}).data.caption_column, "summarize: ");
  EXPECT_EQ(with_keys({"data.caption_column= a"}).data.caption_column, " a");
  EXPECT_EQ(refusal_with({"training.seed = 7"}),
            "command line: \"training.seed \" contains a space; write training.seed=7, without spaces around \"=\"");
}

TEST(CommandLineKeys, AModelThatIsNoFolderIsOneLine) {
  EXPECT_EQ(refusal_with({"model.model_name_or_path="}).find("command line: model.model_name_or_path is missing"), 0U);
  EXPECT_EQ(refusal_with({"model.model_name_or_path=7"}).find("command line: model.model_name_or_path = 7 is an int"),
            0U);
}

TEST(CommandLineKeys, OnlyTheyNeedTheCurrentFolder) {
  const test::TemporaryFolder folder;
  const StandIn gone(folder.path());
  std::filesystem::remove(folder.path());
  EXPECT_EQ(settings_of(kLeast).data.train_file.written, Keys{"t.jsonl"});
  EXPECT_EQ(refusal_with({"training.seed=7"}).find("command line: the current folder cannot be read: "), 0U);
}

// A pattern behind the current folder's name would be another pattern.
TEST(CommandLineKeys, AFolderWithSignsOfAPatternStandsInFrontOfNone) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/g[1]");
  std::filesystem::create_directory(folder.path() + "/c,d");
  {
    const StandIn glob(folder.path() + "/g[1]");
    EXPECT_EQ(with_keys({"data.train_file=a.jsonl"}).data.train_file.written, Keys{here() + "/a.jsonl"});
    EXPECT_EQ(with_keys({"data.train_file=/b/p*.jsonl"}).data.train_file.written, Keys{"/b/p*.jsonl"});
    EXPECT_EQ(with_keys({"data.train_file=s-{0,1}.tar"}).data.train_file.written, Keys{here() + "/s-{0,1}.tar"});
    EXPECT_EQ(refusal_with({"data.train_file=p*.jsonl"}),
              "command line: data.train_file = \"p*.jsonl\": the name of the folder " + here() +
                  " has signs of a pattern itself; give the key from another folder, or write it into the file");
  }
  const StandIn list(folder.path() + "/c,d");
  EXPECT_EQ(with_keys({"data.train_file=p*.jsonl"}).data.train_file.written, Keys{here() + "/p*.jsonl"});
  EXPECT_NE(refusal_with({"data.train_file=s.tar"}).find("has signs of a pattern itself"), std::string::npos);
  EXPECT_EQ(with_keys({"data.train_file=/b/s.tar,/b/t.tar"}).data.train_file.written, Keys{"/b/s.tar,/b/t.tar"});
}

TEST(CommandLineKeys, EachPathOfAListOfShardsKeepsItsMeaning) {
  EXPECT_EQ(with_keys({"data.train_file=a.tar,,/b.tar"}).data.train_file.written, Keys{here() + "/a.tar,,/b.tar"});
  EXPECT_EQ(refusal_with({"data.train_file={a,/abs/b}-{0..1}.tar"}),
            "command line: data.train_file = \"{a,/abs/b}-{0..1}.tar\": an absolute path stands inside braces; list "
            "the paths with commas instead");
  EXPECT_EQ(with_keys({"data.train_file=x/{a,b/c}.tar"}).data.train_file.written, Keys{here() + "/x/{a,b/c}.tar"});
}

// Another process, in another folder, reads the same from the file and these keys.
TEST(CommandLineKeys, AreHandedOnAsOneCanonicalWord) {
  const Keys given = {"training.seed=7",
                      "data.train_file=[\"a.jsonl\", \"b.jsonl\"]",
                      "training.output_dir=o",
                      "data.caption_column=a \"b\"",
                      "training.groups=[{match=\"x\",weight_decay=1}]",
                      "training.resume=r/checkpoint-3",
                      "model.freeze=[\"text_model\"]",
                      "training.max_steps=4"};
  const Settings settings = with_keys(given);
  const Keys handed = command_line_keys(settings);
  ASSERT_EQ(handed.size(), given.size());
  const StandIn elsewhere("/");
  const Settings read = with_keys(handed);
  EXPECT_EQ(print_settings(read), print_settings(settings));
  EXPECT_EQ(command_line_keys(read), handed);
  EXPECT_EQ(read.run.resume_checkpoint.resolved, settings.run.resume_checkpoint.resolved);
  EXPECT_TRUE(command_line_keys(settings_of(kLeast)).empty());
}

TEST(CommandLineKeys, AreRefusedWithTheAdviceOfTheFile) {
  EXPECT_EQ(refusal_with({"training.sed=7"}),
            "command line: unknown key \"sed\" in [training]; did you mean \"seed\"?");
  EXPECT_EQ(refusal_with({"data.seed=7"}), "command line: unknown key \"seed\" in [data]; it belongs in [training]");
  EXPECT_EQ(refusal_with({"seed=7"}), "command line: unknown key \"seed\" outside a table; it belongs in [training]");
  EXPECT_EQ(refusal_with({"trainin.seed=7"}), "command line: unknown table [trainin]; did you mean [training]?");
  EXPECT_EQ(refusal_with({"training={seed=7}"}),
            "command line: training is a table; name a key of it, as training.KEY=VALUE");
  EXPECT_EQ(refusal_with({"training.seed"}),
            "command line: unexpected argument \"training.seed\"; write a key of the settings as TABLE.KEY=VALUE, such "
            "as training.seed=7");
  EXPECT_EQ(refusal_with({"training.seed=7", "training.seed=7"}),
            "command line: training.seed is given twice; give it once");
  EXPECT_EQ(refusal_with({"training.seed=-1"}),
            "command line: training.seed = -1 is out of range; write an integer from 0 to 9223372036854775807");
  EXPECT_EQ(refusal_with({"training.seed=9223372036854775808"}),
            "command line: training.seed = 9223372036854775808 is out of range; write an integer from 0 to "
            "9223372036854775807");
  EXPECT_EQ(refusal_with({"training.seed=-0001"}),
            "command line: training.seed = -1 is out of range; write an integer from 0 to 9223372036854775807");
  EXPECT_EQ(refusal_with({"training.seed=0x10"}),
            "command line: training.seed = 0x10 is not a decimal integer; write an integer from 0 to "
            "9223372036854775807");
  EXPECT_EQ(refusal_with({"training.seed=ten"}),
            "command line: training.seed = \"ten\" is a string; write an integer from 0 to 9223372036854775807");
  EXPECT_EQ(refusal_with({"training.seed="}),
            "command line: training.seed = \"\" is a string; write an integer from 0 to 9223372036854775807");
  EXPECT_EQ(refusal_with({"data.augment=crop"}).find("command line: data.augment: \"crop\" is not a valid value"), 0U);
  EXPECT_EQ(refusal_with({"data.caption_column=\xff"}),
            "command line: the value of data.caption_column is not UTF-8; write it in UTF-8");
  EXPECT_EQ(refusal_with({"data.\xff=7"}), "command line: the key \"data.?\" is not UTF-8; write it in UTF-8");
}

// Of two keys that contradict each other, one in the file: the place is that of the key that the message is about.
TEST(CommandLineKeys, AreThePlaceOfContradictions) {
  EXPECT_EQ(refusal_with({"training.early_stopping_threshold=1.0"}).find("command line: "), 0U);
  EXPECT_EQ(refusal_with({"training.eval_steps=3"}, least_with("training", "early_stopping_threshold = 1.0"))
                .find("test.toml:"),
            0U);
}

TEST(CommandLineKeys, AKeyInPlaceOfTheFileIsToldApart) {
  EXPECT_TRUE(test::fails([&] { read_settings("training.seed=7", {}, test_words); },
                          "name the TOML file before keys of its settings", ErrorKind::kSettings));
}

}  // namespace
}  // namespace bascule
