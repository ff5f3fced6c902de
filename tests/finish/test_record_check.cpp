// SPDX-License-Identifier: Apache-2.0
// Differences from a record that was made by this very program on this machine, but for one thing.
#include "src/finish/run_record.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "src/files/input_file.h"
#include "src/record/opened_model.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

class RecordCheck : public testing::Test {
 protected:
  RecordCheck() {
    recorded_.folder = folder_.path();
    recorded_.record.program = running_program();
    recorded_.record.machine = lasting_facts();
    const std::string weights = folder_.write("model.safetensors", "weights");
    recorded_.record.results = {{"model.safetensors", sha256_of_file(weights)}};
  }

  // Those that begin so. The settings name no model, so the check also says that the run cannot be repeated.
  std::vector<Difference> differences(const std::string& begin) const {
    std::vector<Difference> found;
    for (const Difference& one : check_record(recorded_)) {
      if (one.what.rfind(begin, 0) == 0) found.push_back(one);
    }
    return found;
  }

  test::TemporaryFolder folder_;
  RecordedFolder recorded_;
};

TEST_F(RecordCheck, WhatIsAsRecordedIsNotNamed) {
  for (const char* const begin : {"program ", "library ", "result ", "machine: "})
    EXPECT_TRUE(differences(begin).empty()) << begin;
}

TEST_F(RecordCheck, AResultWithOtherContentIsNamedAndItsBitsAreStillPromised) {
  folder_.write("model.safetensors", "Weights");
  std::vector<Difference> found = differences("result ");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].what.find("model.safetensors: its content differs"), std::string::npos) << found[0].what;
  EXPECT_EQ(found[0].promise, Promise::kBits);
  recorded_.record.results.push_back({"ema/model.safetensors", "aa"});  // missing
  EXPECT_EQ(differences("result ").size(), 2u);
}

// oneDNN chooses its code by the processor; our own products have one order of sums.
TEST_F(RecordCheck, OnAnotherProcessorOnednnPromisesFiguresAndOurProductsBits) {
  Machine& then = recorded_.record.machine;
  then.processor.name = "Another Processor";
  then.processor.vector_flags = {"avx2", "another"};
  for (const auto& [products, promise] :
       {std::make_pair(Products::kOnednn, Promise::kFigures), std::make_pair(Products::kOurs, Promise::kBits)}) {
    recorded_.settings.machine.products = products;
    const std::vector<Difference> found = differences("machine: ");
    ASSERT_EQ(found.size(), 2u);
    EXPECT_NE(found[0].what.find("the processor is "), std::string::npos) << found[0].what;
    EXPECT_NE(found[0].what.find(", was Another Processor"), std::string::npos) << found[0].what;
    EXPECT_NE(found[1].what.find("its instruction set is "), std::string::npos) << found[1].what;
    for (const Difference& one : found) EXPECT_EQ(one.promise, promise) << one.what;
  }
}

TEST_F(RecordCheck, AnotherKernelLeavesBitsAloneWithEitherProducts) {
  recorded_.record.machine.kernel.release = "another";
  for (const Products products : {Products::kOnednn, Products::kOurs}) {
    recorded_.settings.machine.products = products;
    const std::vector<Difference> found = differences("machine: the kernel");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].promise, Promise::kBits);
  }
}

// The least that the demo's settings say, and more lines of [training].
std::string text(const std::string& changes) {
  const std::string demo = test::reference_dir() + "/emoji-captions";
  return "[model]\nmodel_name_or_path = \"" + demo + "/model\"\ntokenizer_name = \"" + demo +
         "/tokenizer\"\n[data]\ntrain_file = \"" + demo + "/train.jsonl\"\n[training]\noutput_dir = \"run\"\n" +
         changes;
}

TEST_F(RecordCheck, AChangedSettingPromisesBitsOnlyWhereItChangesNoResult) {
  const std::string file = folder_.write("run.toml", text(""));
  recorded_.record.settings_file = {file, sha256_of_file(file)};
  recorded_.written = read_settings_text(text(""), file, folder_.path(), model_words);
  EXPECT_TRUE(differences("settings file ").empty());
  for (const auto& [line, says, promise] :
       {std::make_tuple("seed = 7\n", "training.seed is 7, was 42", Promise::kNothing),
        std::make_tuple("[report]\nhtml = false\n", "report.html is false, was true", Promise::kBits),
        std::make_tuple("# as it was\n", "its content differs, but no setting does", Promise::kBits)}) {
    folder_.write("run.toml", text(line));
    const std::vector<Difference> found = differences("settings file ");
    ASSERT_EQ(found.size(), 1u) << line;
    EXPECT_NE(found[0].what.find(says), std::string::npos) << found[0].what;
    EXPECT_EQ(found[0].promise, promise) << line;
  }
}

TEST_F(RecordCheck, KeysOfTheCommandLineStandInPlaceOfTheFiles) {
  const std::string file = folder_.write("run.toml", text("seed = 1\n"));
  recorded_.record.settings_file = {file, sha256_of_file(file)};
  recorded_.record.settings_keys = {"training.seed=7"};
  recorded_.written = read_settings_text(text("seed = 7\n"), file, folder_.path(), model_words);
  folder_.write("run.toml", text("seed = 2\n"));
  const std::vector<Difference> found = differences("settings file ");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].what.find("no setting does"), std::string::npos) << found[0].what;
}

TEST_F(RecordCheck, AnotherProgramOrLibraryThatComputesPromisesFigures) {
  recorded_.record.program.sha256 = "aa";
  const std::string library = folder_.write("libjpeg.so.999", "code"), other = folder_.write("libother.so.1", "code");
  recorded_.record.libraries = {{library, "aa"}, {other, "aa"}};
  ASSERT_EQ(differences("program ").size(), 1u);
  EXPECT_EQ(differences("program ")[0].promise, Promise::kFigures);
  const std::vector<Difference> libraries = differences("library ");
  ASSERT_EQ(libraries.size(), 2u);
  EXPECT_EQ(libraries[0].promise, Promise::kFigures);
  EXPECT_EQ(libraries[1].promise, Promise::kBits);
}

}  // namespace
}  // namespace bascule
