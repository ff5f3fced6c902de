// SPDX-License-Identifier: Apache-2.0
// Profiles of machines: a bring-up as JSON, and the judgement against one.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/bring_up.h"
#include "src/bringup/causes.h"
#include "src/json/value.h"

namespace bascule {

// A bring-up judged against a saved profile, figure by figure.

// disturbed: worse, but others took part of its time meanwhile. unknown: the profile lacks it.
enum class Verdict { kOk, kSlower, kFaster, kDisturbed, kUnknown };
const char* verdict_name(Verdict verdict);

struct FigureJudgement {
  Verdict verdict = Verdict::kUnknown;
  double change = 0.0;        // in speed: -0.2 is a fifth slower than the profile; 0 where unknown
  std::vector<Cause> causes;  // of slower and disturbed figures; empty: unknown, of a slower one
};

// One for each figure of `now`, in its order.
std::vector<FigureJudgement> judge(const BringUp& now, const BringUp& saved);

// Whether every core computed the recorded bits, and no figure is slower: else the command ends with exit code 7.
bool is_as_recorded(const BringUp& now, const std::vector<FigureJudgement>& judgements);

// A bring-up as a JSON document: what --json prints, and the profile that --save writes and --against reads.

// judgements: one for each figure, or none where there was no profile to judge by.
Json bring_up_json(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements);

// Strict: a file that is cut short or lacks something is an Error kData that says what and where.
BringUp read_profile(const std::string& path);

}  // namespace bascule
