// SPDX-License-Identifier: Apache-2.0
#include "src/record/judge_repeat.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "src/report/readable.h"

namespace bascule {
namespace {

constexpr double kSameFigures = 0.01;

std::string number_text(const std::string& bits) {
  std::uint64_t value = 0;
  std::from_chars(bits.data(), bits.data() + bits.size(), value, 16);
  double number = 0.0;
  std::memcpy(&number, &value, sizeof number);
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

std::string differs(const char* figure, const std::string& now, const std::string& then) {
  return std::string("the ") + figure + " is " + number_text(now) + ", was " + number_text(then);
}

// Of the updates after `before` up to the interval's last one.
std::string name_of(std::int64_t before, std::int64_t step) {
  if (step - before <= 1) return "update " + std::to_string(step);
  return "one of updates " + std::to_string(before + 1) + " to " + std::to_string(step);
}

std::string first_step_that_differs(const RunRecord& then, const RunRecord& now) {
  std::int64_t before = 0;
  for (std::size_t i = 0; i < std::min(then.steps.size(), now.steps.size()); ++i) {
    const LoggedBits &a = then.steps[i], &b = now.steps[i];
    const std::string name = name_of(before, a.step) + ": ";
    if (a.step != b.step) return "the logs are of different updates from update " + std::to_string(a.step) + " on";
    if (a.loss != b.loss) return name + differs("mean loss", b.loss, a.loss);
    if (a.norm != b.norm) return name + differs("gradient norm", b.norm, a.norm);
    before = a.step;
  }
  if (then.steps.size() == now.steps.size()) return "";
  return "the run logged " + std::to_string(now.steps.size()) + " intervals, was " + std::to_string(then.steps.size());
}

std::string first_evaluation_that_differs(const RunRecord& then, const RunRecord& now) {
  if (then.evaluations.size() != now.evaluations.size())
    return "the run has " + std::to_string(now.evaluations.size()) + " evaluations, had " +
           std::to_string(then.evaluations.size());
  for (std::size_t i = 0; i < then.evaluations.size(); ++i) {
    const EvaluatedBits &a = then.evaluations[i], &b = now.evaluations[i];
    if (a.loss != b.loss || a.step != b.step)
      return a.split + " after update " + std::to_string(a.step) + ": " + differs("loss", b.loss, a.loss);
  }
  return "";
}

std::string first_result_that_differs(const RunRecord& then, const RunRecord& now) {
  for (const SummedFile& file : then.results) {
    const auto same = [&](const SummedFile& one) { return one.path == file.path && one.sha256 == file.sha256; };
    if (std::none_of(now.results.begin(), now.results.end(), same)) return file.path + ": its content differs";
  }
  return "";
}

}  // namespace

RepeatJudgement judge_repeat(const RunRecord& then, const RunRecord& now) {
  RepeatJudgement judgement;
  for (const auto& look : {first_step_that_differs, first_evaluation_that_differs, first_result_that_differs}) {
    if (judgement.first_difference.empty()) judgement.first_difference = look(then, now);
  }
  judgement.has_equal_bits = judgement.first_difference.empty();
  judgement.loss = now.train_loss;
  judgement.loss_then = then.train_loss;
  judgement.has_equal_figures = std::abs(now.train_loss - then.train_loss) <= kSameFigures * std::abs(then.train_loss);
  return judgement;
}

}  // namespace bascule
