// SPDX-License-Identifier: Apache-2.0
// A bring-up for people: as text, and as one HTML page.
#pragma once

#include <string>
#include <vector>

#include "src/bringup/bring_up.h"
#include "src/bringup/profile.h"

namespace bascule {

// judgements: one for each figure, or none where there was no profile to judge by.
std::string bring_up_text(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements);
std::string bring_up_html(const BringUp& bring_up, const std::vector<FigureJudgement>& judgements);

}  // namespace bascule
