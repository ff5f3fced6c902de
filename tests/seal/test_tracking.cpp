// SPDX-License-Identifier: Apache-2.0
// What a run says of itself in a store of MLflow.
#include "src/seal/sealed_records.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/record/demo_run.h"
#include "tests/support/files.h"

namespace bascule::test {
namespace {

TEST(Tracking, HasStringsWithoutQuotesUnlessTheyHaveEscapes) {
  const TemporaryFolder folder;
  const Settings settings = demo_settings(folder.path(), "", "[report]\ntracking = \"mlflow\"\n",
                                          "image_column = \"picture\"\ncaption_column = \"the \\\"text\\\"\"\n");
  std::filesystem::create_directory(settings.run.output_dir.resolved);
  (void)open_tracking(settings);
  const std::string id = read_file(settings.run.output_dir.resolved + "/.mlflow-run").substr(0, 32);
  const std::string parameters = tracking_store(settings) + "/0/" + id + "/params/data.";
  EXPECT_EQ(read_file(parameters + "image_column"), "picture");
  EXPECT_EQ(read_file(parameters + "caption_column"), "\"the \\\"text\\\"\"");
}

}  // namespace
}  // namespace bascule::test
