// SPDX-License-Identifier: Apache-2.0
// Facts of the machine in words, and the causes of figures that are worse.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/bring_up.h"
#include "src/machine/machine.h"

namespace bascule {

// A fact of the machine in words: for a bring-up's causes and its page.

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

}  // namespace bascule
