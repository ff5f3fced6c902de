// SPDX-License-Identifier: Apache-2.0
// A bring-up as a JSON document: what --json prints, and the profile that --save writes and --against reads.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/bring_up.h"
#include "src/bringup/verdicts.h"
#include "src/json/value.h"

namespace bascule {

// judgements: one for each figure, or none where there was no profile to judge by.
Json bring_up_json(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements);

// Strict: a file that is cut short or lacks something is an Error kData that says what and where.
BringUp read_profile(const std::string& path);

}  // namespace bascule
