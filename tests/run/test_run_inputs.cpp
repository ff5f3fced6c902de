// SPDX-License-Identifier: Apache-2.0
#include "src/run/run_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/run/demo_run.h"

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

}  // namespace
}  // namespace bascule::test
