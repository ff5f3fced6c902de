// SPDX-License-Identifier: Apache-2.0
#include "src/finish/judge_repeat.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "src/base/error.h"

namespace bascule {
namespace {

using Kind = PictureParting::Kind;

std::int64_t calls_of(const PictureLogRow& row) { return static_cast<std::int64_t>(row.latents.size()) - 1; }

// The first difference, in the order in which a picture is made.
Kind kind_of(const PictureLogRow& a, const PictureLogRow& b, std::int64_t* call) {
  if (a.prompt != b.prompt) return Kind::kPrompt;
  if (a.negative_prompt != b.negative_prompt) return Kind::kNegativePrompt;
  if (a.latents.size() != b.latents.size()) return Kind::kCalls;
  const auto latents = std::mismatch(a.latents.begin(), a.latents.end(), b.latents.begin()).first;
  if (latents != a.latents.end()) {
    *call = latents - a.latents.begin();
    return *call == 0 ? Kind::kNoise : Kind::kAfterCall;
  }
  return a.digest == b.digest ? Kind::kNone : Kind::kPixels;
}

constexpr double kSameFigures = 0.01;

std::string number_text(const std::string& bits) {
  std::uint64_t value = 0;
  std::from_chars(bits.data(), bits.data() + bits.size(), value, 16);
  double number = 0.0;
  std::memcpy(&number, &value, sizeof number);
  return formatted("%.17g", number);
}

std::string differs(const char* figure, const std::string& now, const std::string& then) {
  return std::string("the ") + figure + " is " + number_text(now) + ", was " + number_text(then);
}

// Names the updates after `before` up to the interval's last one.
std::string name_of(std::int64_t before, std::int64_t step) {
  if (step - before <= 1) return "update " + std::to_string(step);
  return "one of updates " + std::to_string(before + 1) + " to " + std::to_string(step);
}

// The intervals that both runs logged. A run that was interrupted or lengthened has others besides: a process logs its
// last update too, which may lie within an interval.
std::string first_step_that_differs(const RunRecord& then, const RunRecord& now, RepeatJudgement& judgement) {
  std::map<std::pair<std::int64_t, std::int64_t>, const LoggedBits*> recorded;
  std::int64_t before = 0;
  for (const LoggedBits& one : then.steps) recorded[{std::exchange(before, one.step), one.step}] = &one;
  before = 0;
  for (const LoggedBits& b : now.steps) {
    const std::int64_t start = std::exchange(before, b.step);
    const auto found = recorded.find({start, b.step});
    if (found == recorded.end()) continue;
    const LoggedBits& a = *found->second;
    const std::string name = name_of(start, a.step) + ": ";
    if (a.loss != b.loss) return name + differs("mean loss", b.loss, a.loss);
    if (a.norm != b.norm) return name + differs("gradient norm", b.norm, a.norm);
    ++judgement.intervals;
  }
  return "";
}

// The evaluations after the same updates, for the same reason.
std::string first_evaluation_that_differs(const RunRecord& then, const RunRecord& now, RepeatJudgement& judgement) {
  std::map<std::pair<std::string, std::int64_t>, const EvaluatedBits*> recorded;
  for (const EvaluatedBits& one : then.evaluations) recorded[{one.split, one.step}] = &one;
  for (const EvaluatedBits& b : now.evaluations) {
    const auto found = recorded.find({b.split, b.step});
    if (found == recorded.end()) continue;
    if (found->second->loss != b.loss)
      return b.split + " after update " + std::to_string(b.step) + ": " + differs("loss", b.loss, found->second->loss);
    ++judgement.evaluations;
  }
  return "";
}

std::string first_result_that_differs(const RunRecord& then, const RunRecord& now, RepeatJudgement&) {
  for (const SummedFile& file : then.results) {
    const auto same = [&](const SummedFile& one) { return one.path == file.path && one.sha256 == file.sha256; };
    if (std::none_of(now.results.begin(), now.results.end(), same)) return file.path + ": its content differs";
  }
  return "";
}

}  // namespace

bool has_pictures(const std::string& folder) { return std::filesystem::exists(folder + "/" + kPictureLogFile); }

std::vector<PictureLogRow> drawn_pictures(const std::string& folder) {
  if (!std::filesystem::exists(folder)) throw Error(ErrorKind::kData, folder, "there is no such folder");
  std::vector<PictureLogRow> rows = read_picture_log(folder + "/" + kPictureLogFile);
  if (rows.empty()) throw Error(ErrorKind::kData, folder, "has no pictures", "name the folder of a run that draws");
  std::sort(rows.begin(), rows.end(), [](const PictureLogRow& a, const PictureLogRow& b) {
    return a.file.size() != b.file.size() ? a.file.size() < b.file.size() : a.file < b.file;
  });
  return rows;
}

PictureParting find_picture_parting(const std::vector<PictureLogRow>& a, const std::vector<PictureLogRow>& b) {
  std::map<std::string, const PictureLogRow*> others;
  for (const PictureLogRow& row : b) others[row.file] = &row;
  PictureParting parting;
  for (const PictureLogRow& row : a) {
    const auto other = others.find(row.file);
    if (other == others.end()) {
      ++parting.only_a;
      continue;
    }
    ++parting.common;
    std::int64_t call = 0;
    const Kind kind = kind_of(row, *other->second, &call);
    if (kind == Kind::kNone) {
      ++parting.equal;
    } else if (parting.kind == Kind::kNone) {
      parting.kind = kind;
      parting.picture = row.file;
      parting.call = call;
      parting.calls = calls_of(row);
      parting.calls_of_other = calls_of(*other->second);
    }
  }
  parting.only_b = others.size() - parting.common;
  return parting;
}

const char* kind_word(Kind kind) {
  constexpr const char* kWords[] = {nullptr, "prompt", "negative prompt", "calls", "noise", "latents", "pixels"};
  return kWords[static_cast<int>(kind)];
}

std::string parting_text(const PictureParting& parting) {
  const std::string picture = parting.picture + ": ", calls = std::to_string(parting.calls);
  switch (parting.kind) {
    case Kind::kNone: return "";
    case Kind::kPrompt: return picture + "the prompts differ";
    case Kind::kNegativePrompt: return picture + "the negative prompts differ";
    case Kind::kCalls:
      return picture + "drawn with " + calls + " calls of the UNet, and with " + std::to_string(parting.calls_of_other);
    case Kind::kNoise: return picture + "the noise that it begins with differs";
    case Kind::kAfterCall:
      return picture + "the latents differ after call " + std::to_string(parting.call) + " of " + calls;
    case Kind::kPixels: return picture + "the pixels differ, but not the latents that they are decoded from";
  }
  return "";
}

RepeatJudgement judge_repeat(const RunRecord& then, const RunRecord& now) {
  RepeatJudgement judgement;
  for (const auto& look : {first_step_that_differs, first_evaluation_that_differs, first_result_that_differs}) {
    if (judgement.first_difference.empty()) judgement.first_difference = look(then, now, judgement);
  }
  judgement.has_equal_bits = judgement.first_difference.empty();
  judgement.loss = now.train_loss;
  judgement.loss_then = then.train_loss;
  const bool has_none = std::isnan(now.train_loss) && std::isnan(then.train_loss);
  judgement.has_equal_figures =
      has_none || std::abs(now.train_loss - then.train_loss) <= kSameFigures * std::abs(then.train_loss);
  return judgement;
}

RepeatJudgement judge_repeated_pictures(const std::string& then, const std::string& now) {
  const std::vector<PictureLogRow> recorded = drawn_pictures(then), drawn = drawn_pictures(now);
  const PictureParting parting = find_picture_parting(recorded, drawn);
  RepeatJudgement judgement;
  judgement.pictures = parting.equal;
  judgement.first_difference = parting_text(parting);
  if (judgement.first_difference.empty() && (drawn.size() != recorded.size() || parting.common != recorded.size()))
    judgement.first_difference =
        "it has " + count_of(drawn.size(), "picture") + ", not " + std::to_string(recorded.size());
  judgement.has_equal_bits = judgement.has_equal_figures = judgement.first_difference.empty();
  return judgement;
}

}  // namespace bascule
