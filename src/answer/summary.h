// SPDX-License-Identifier: Apache-2.0
// The tables that a run prints at its end: headline figures, where the time went, contracts kept or broken. Plain text
// with line breaks, aligned for a terminal of 80 columns or more. Finish phase.
#pragma once

#include <string>
#include <vector>

#include "src/answer/report.h"

namespace bascule {

std::string summary_text(const Report& report);
// Parts of it.
std::string time_table(const Report& report);
std::string contract_table(const std::vector<ContractResult>& contracts);

}  // namespace bascule
