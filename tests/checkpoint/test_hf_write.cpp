// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/hf_write.h"

#include <cerrno>
#include <filesystem>

#include "src/checkpoint/hf_folder.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "tests/checkpoint/files.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::TemporaryFolder;
using Names = std::vector<std::string>;

// Every tensor of a source, copied as it is read.
std::vector<TensorToWrite> all_of(const TensorSource& source) {
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& stored : source.tensors()) {
    tensors.push_back({stored.name, DType::kFloat32, stored.shape, nullptr, &source, &stored});
  }
  return tensors;
}

HfFolderContents contents_of(const TensorSource& source) {
  HfFolderContents contents;
  contents.config_json = "{}\n";
  contents.tensors = all_of(source);
  return contents;
}

void expect_same_tensors(const TensorSource& ours, const TensorSource& expected) {
  ASSERT_EQ(ours.tensors().size(), expected.tensors().size());
  for (const StoredTensor& stored : expected.tensors()) {
    const StoredTensor* copy = ours.find(stored.name);
    ASSERT_NE(copy, nullptr) << stored.name;
    EXPECT_EQ(copy->shape, stored.shape);
    EXPECT_EQ(test::read_all(ours, *copy), test::read_all(expected, stored)) << stored.name;
  }
}

TEST(HfWrite, ConfigNamesTheClassAndTheTypeAndKeepsTheRest) {
  const Json source = {{"architectures", {"Other"}}, {"torch_dtype", "bfloat16"}, {"hidden_size", 64}};
  const Json expected = {{"architectures", {"BridgeTowerForMaskedLM"}}, {"dtype", "float32"}, {"hidden_size", 64}};
  EXPECT_EQ(config_to_write(source, "BridgeTowerForMaskedLM"), expected);
}

TEST(HfWrite, AFolderReadsBackWithItsSideFilesByteForByte) {
  const std::string tokenizer = test::reference_dir() + "/emoji-captions/tokenizer";
  const std::string model = test::reference_dir() + "/emoji-captions/model";
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  HfFolderContents contents = contents_of(source);
  contents.tokenizer_folder = tokenizer;
  contents.preprocessor_folder = model;
  const HfFolderPlan plan(contents);
  const TemporaryFolder folder;
  ASSERT_TRUE(plan.write_into(folder.path().c_str()).ok());
  expect_same_tensors(open_hf_weights(folder.path()), source);
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json"}) {
    EXPECT_EQ(test::read_file(folder.path() + "/" + name), test::read_file(tokenizer + "/" + name)) << name;
  }
  EXPECT_EQ(test::read_file(folder.path() + "/preprocessor_config.json"),
            test::read_file(model + "/preprocessor_config.json"));
  EXPECT_EQ(folder_entries(folder.path()).size(), plan.files().size());
  for (const PlannedFile& file : plan.files()) {
    EXPECT_EQ(std::filesystem::file_size(folder.path() + "/" + file.name), static_cast<std::uintmax_t>(file.bytes));
  }
}

TEST(HfWrite, AProcessorFileThatIsGivenIsWrittenBesideTheOthers) {
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  HfFolderContents contents = contents_of(source);
  contents.tokenizer_folder = test::reference_dir() + "/emoji-captions/tokenizer";
  contents.texts = {{"preprocessor_config.json", "{\"size\": 1}\n"}};
  const HfFolderPlan plan(contents);
  const TemporaryFolder folder;
  ASSERT_TRUE(plan.write_durably_into(folder.path().c_str()).ok());
  EXPECT_EQ(test::read_file(folder.path() + "/preprocessor_config.json"), "{\"size\": 1}\n");
  EXPECT_EQ(test::read_file(folder.path() + "/config.json"), contents.config_json);
  for (const PlannedFile& file : plan.files())
    EXPECT_EQ(std::filesystem::file_size(folder.path() + "/" + file.name), static_cast<std::uintmax_t>(file.bytes));
}

TEST(HfWrite, ATokenizerFileThatIsGivenIsWrittenInPlaceOfTheSources) {
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  HfFolderContents contents = contents_of(source);
  contents.tokenizer_folder = test::reference_dir() + "/emoji-captions/tokenizer";
  contents.texts = {{"tokenizer_config.json", "{}\n"}};
  const HfFolderPlan plan(contents);
  const TemporaryFolder folder;
  ASSERT_TRUE(plan.write_into(folder.path().c_str()).ok());
  EXPECT_EQ(test::read_file(folder.path() + "/tokenizer_config.json"), "{}\n");
  EXPECT_EQ(folder_entries(folder.path()).size(), plan.files().size());
}

// Whole at once, as a checkpoint, and file by file, as a folder in use.
TEST(HfWrite, AFileMayLieInAFolderOfItsOwn) {
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  for (const bool is_durable : {false, true}) {
    const TemporaryFolder folder;
    HfFolderContents contents = contents_of(source);
    contents.texts = {{"1_Pooling/config.json", "pooling"}, {"modules.json", "modules"}};
    const HfFolderPlan plan(std::move(contents));
    for (int again = 0; again < 2; ++again) {
      ASSERT_TRUE(
          (is_durable ? plan.write_durably_into(folder.path().c_str()) : plan.write_into(folder.path().c_str())).ok());
      EXPECT_EQ(test::read_file(folder.path() + "/1_Pooling/config.json"), "pooling");
      EXPECT_EQ(test::read_file(folder.path() + "/modules.json"), "modules");
      EXPECT_EQ(folder_entries(folder.path() + "/1_Pooling"), Names{"config.json"});
      EXPECT_FALSE(has_leftovers(folder.path()));
    }
  }
}

TEST(HfWrite, LargeModelsAreCutIntoShardsWithAnIndex) {
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  HfFolderContents contents = contents_of(source);
  contents.max_shard_bytes = 100000;
  const HfFolderPlan plan(contents);
  const TemporaryFolder folder;
  folder.write("model.safetensors", "of an earlier run");
  ASSERT_TRUE(plan.write_durably_into(folder.path().c_str()).ok());
  expect_same_tensors(open_hf_weights(folder.path()), source);
  const Names names = folder_entries(folder.path());
  EXPECT_EQ(names.front(), "config.json");
  EXPECT_EQ(names.back(), "model.safetensors.index.json");
  EXPECT_GE(names.size(), 6u);
  for (const PlannedFile& file : plan.files()) EXPECT_LE(file.bytes, 100000 + 20000) << file.name;
}

TEST(HfWrite, AFailureLeavesTheFolderAsItWas) {
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  const TemporaryFolder folder;
  folder.write("model.safetensors", "old");
  std::filesystem::create_directory(folder.path() + "/.tmp-bascule-model.safetensors");
  const Status status = HfFolderPlan(contents_of(source)).write_durably_into(folder.path().c_str());
  EXPECT_EQ(status.detail[0], EISDIR);
  EXPECT_EQ(test::read_file(folder.path() + "/model.safetensors"), "old");
}

TEST(HfWrite, SideFilesSurviveTheRemovalOfTheirFolder) {
  const TemporaryFolder from;
  const std::string vocabulary = from.write("vocab.json", "{}");
  const TensorSource source = open_hf_weights(test::reference_dir() + "/goldens/base_model");
  HfFolderContents contents = contents_of(source);
  contents.tokenizer_folder = from.path();
  const HfFolderPlan plan(contents);
  std::filesystem::remove(vocabulary);
  const TemporaryFolder folder;
  ASSERT_TRUE(plan.write_into(folder.path().c_str()).ok());
  EXPECT_EQ(test::read_file(folder.path() + "/vocab.json"), "{}");
}

}  // namespace
}  // namespace bascule
