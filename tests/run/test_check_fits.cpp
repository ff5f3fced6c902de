// SPDX-License-Identifier: Apache-2.0
#include "src/run/check_fits.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/error.h"
#include "tests/run/demo_run.h"

namespace bascule::test {
namespace {

// What is advised where the run with these batches needs just more than it may have.
std::string advice_with(int train, int evaluation) {
  DemoRun run("", "max_steps = 3\nper_device_eval_batch_size = " + std::to_string(evaluation) + "\n", "", "", train);
  try {
    check_fits(*run, {}, {{LimitKind::kMemory, run->plan.peak_bytes() - (std::size_t{1} << 20), "a test"}});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    return error.what_to_do();
  }
  return "it fits";
}

TEST(CheckFits, TheAdviceNamesTheBatchSizesThatAreTooLarge) {
  EXPECT_EQ(advice_with(4, 128).rfind("training.per_device_eval_batch_size = ", 0), 0u) << advice_with(4, 128);
  EXPECT_EQ(advice_with(64, 4).rfind("training.per_device_train_batch_size = ", 0), 0u) << advice_with(64, 4);
  EXPECT_EQ(
      advice_with(64, 64).rfind("training.per_device_train_batch_size and training.per_device_eval_batch_size = ", 0),
      0u)
      << advice_with(64, 64);
}

}  // namespace
}  // namespace bascule::test
