// SPDX-License-Identifier: Apache-2.0
// A bring-up judged against the profile of a machine, and as JSON, text and a page.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/bring_up.h"
#include "src/json/value.h"

namespace bascule {

// A fact of the machine in words.
inline std::string known(const TextFact& fact) { return fact.value_or("unknown"); }

// Why a figure is worse than in a profile: a cause is named only with evidence that this very bring-up has measured.

struct Cause {
  std::string name;      // "quota"
  std::string evidence;  // "/sys/fs/cgroup/a allows 0.60 cores; it took 38 % of the time"
  std::string remedy;
};

// All that apply to the figure, in the order of the table; empty: unknown. was: the figure in the profile `saved`. Both
// null: what limits this machine on any ground but comparison.
std::vector<Cause> causes_of(const Figure& figure, const BringUp& now, const Figure* was, const BringUp* saved);

// Every cause of the table, without evidence.
std::vector<Cause> known_causes();

// The cause for a figure that lost time where the table has no evidence of who took it.
Cause lost_time(const Figure& figure);

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

// The same for people.
std::string bring_up_text(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements);
std::string bring_up_html(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements);

}  // namespace bascule
