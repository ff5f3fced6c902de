// SPDX-License-Identifier: Apache-2.0
#include "src/record/check_fits.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/error.h"
#include "tests/record/demo_run.h"

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

// "": the run fits.
std::string advice_within(DemoRun& run, std::size_t bytes) {
  try {
    check_fits(*run, {}, {{LimitKind::kMemory, bytes, "a test"}});
  } catch (const Error& error) {
    return error.what_to_do();
  }
  return "";
}

// bf16 halves the weights of a run that only evaluates.
TEST(CheckFits, Bf16IsAdvisedWhereItFitsAndOnlyThere) {
  const std::string evaluates = "do_train = false\nper_device_eval_batch_size = 64\n";
  DemoRun full("", evaluates), rounded("precision = \"bf16\"\n", evaluates);
  const std::size_t bytes = rounded->plan.peak_bytes();
  ASSERT_LT(bytes, full->plan.peak_bytes());
  const std::string advice = advice_within(full, bytes);
  EXPECT_NE(advice.find("or model.precision = \"bf16\" as it is"), std::string::npos) << advice;
  EXPECT_EQ(advice_within(rounded, bytes), "");
  DemoRun of_onednn("", evaluates + "[machine]\nproducts = \"onednn\"\n");
  const std::string other = advice_within(of_onednn, of_onednn->plan.peak_bytes() - 1);
  EXPECT_EQ(other.find("bf16"), std::string::npos) << "which is refused with these products: " << other;
  const std::string less = advice_within(full, bytes - 1);
  EXPECT_EQ(less.find("as it is"), std::string::npos) << less;
  const std::string none = advice_within(full, std::size_t{1} << 20);
  EXPECT_EQ(none.rfind("no batch size fits: batch size 1 needs ", 0), 0u) << none;
  EXPECT_NE(none.find(" (weights take "), std::string::npos) << none;
  EXPECT_EQ(none.find("bf16"), std::string::npos) << "which does not fit either: " << none;
  DemoRun one_rounded("precision = \"bf16\"\n", "do_train = false\nper_device_eval_batch_size = 1\n");
  const std::string with_one = advice_within(full, one_rounded->plan.peak_bytes());
  EXPECT_NE(with_one.find(", but model.precision = \"bf16\" would fit with this batch size"), std::string::npos)
      << with_one;
}

// Each of both would fit, and recomputation changes no bit.
TEST(CheckFits, RecomputationIsAdvisedBeforeBf16) {
  const std::string trains = "max_steps = 3\n";
  DemoRun full("", trains, "", "", 64), rounded("precision = \"bf16\"\n", trains, "", "", 64);
  const std::size_t bytes = full->plan.peak_bytes() - (std::size_t{1} << 20);
  ASSERT_LE(rounded->plan.peak_bytes(), bytes);
  const std::string gib = std::to_string(static_cast<double>(bytes) / 1073741824.0 - 1e-6);
  DemoRun limited("", trains + "[machine]\nmemory_limit_gib = " + gib + "\n", "", "", 64);
  const std::string advice = advice_within(limited, bytes);
  EXPECT_NE(advice.find(", or training.gradient_checkpointing = \"fit\" as it is"), std::string::npos) << advice;
}

TEST(CheckFits, WhereWeightsGradientsAndMomentsAreTooMuchItAdvisesAnotherOptimizer) {
  const auto advice_within = [](const std::string& lines, double share) {
    DemoRun run("", "max_steps = 3\ngradient_checkpointing = \"full\"\n" + lines, "", "", 1);
    const double bytes = share * static_cast<double>(run->plan.peak_bytes());
    try {
      check_fits(*run, {}, {{LimitKind::kMemory, static_cast<std::size_t>(bytes), "a test"}});
    } catch (const Error& error) {
      return error.what_to_do();
    }
    return std::string("it fits");
  };
  const std::string advice = advice_within("", 0.9);
  EXPECT_EQ(advice.rfind("no batch size fits: batch size 1 needs ", 0), 0u) << advice;
  for (const char* share : {"(weights take ", ", gradients ", ", exp_avg ", ", exp_avg_sq ",
                            "training.optimizer = \"adafactor\", fused_update = true, max_grad_norm = 0.0 and"})
    EXPECT_NE(advice.find(share), std::string::npos) << share << " in " << advice;
  EXPECT_NE(advice_within("gradient_accumulation_steps = 2\n", 0.97)
                .find("training.optimizer = \"adafactor\" and gradient_checkpointing = \"fit\" need"),
            std::string::npos);
  EXPECT_NE(advice_within("optimizer = \"adafactor\"\nfused_update = true\nmax_grad_norm = 0.0\n", 0.01)
                .find(", gradient ring "),
            std::string::npos);
  EXPECT_EQ(advice_within("", 0.01).find("adafactor"), std::string::npos) << "which does not fit either";
}

}  // namespace
}  // namespace bascule::test
