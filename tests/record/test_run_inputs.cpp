// SPDX-License-Identifier: Apache-2.0
#include "src/record/run_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

// The test file is the validation file again, with the same pictures.
TEST(RunInputs, AreNamedOnceInOrder) {
  DemoRun run("", "max_steps = 3\n", "test_file = \"" + reference_dir() + "/emoji-captions/validation.jsonl\"\n");
  int manifests = 0;
  for (const InputFolder& folder : run_inputs(*run)) {
    const std::vector<std::string>& files = folder.files;
    manifests += static_cast<int>(std::count(files.begin(), files.end(), "validation.jsonl"));
    EXPECT_TRUE(std::is_sorted(files.begin(), files.end())) << folder.folder;
    EXPECT_EQ(std::adjacent_find(files.begin(), files.end()), files.end()) << folder.folder;
  }
  EXPECT_EQ(manifests, 1);
}

// Which rows are held out is found by all pictures.
TEST(RunInputs, OfAShareAreAllPicturesWhateverTheRunReads) {
  const TemporaryFolder folder;
  Settings settings = demo_settings(folder.path(), "", "max_steps = 3\n");
  settings.data.validation_file = {};
  settings.data.validation_share = 0.3;
  const auto files = [&](bool trains, bool evaluates) {
    settings.training.do_train = trains;
    settings.training.do_eval = evaluates;
    std::size_t count = 0;
    for (const InputFolder& one : run_inputs(*record_run(settings, RankPlace{}))) count += one.files.size();
    return count;
  };
  const std::size_t all = files(true, true);
  EXPECT_EQ(files(false, true), all);
  EXPECT_EQ(files(true, false), all);
}

}  // namespace
}  // namespace bascule::test
