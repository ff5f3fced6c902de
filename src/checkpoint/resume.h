// SPDX-License-Identifier: Apache-2.0
// Whether a run may go on from a checkpoint: what must be as it was. Before the seal.
#pragma once

#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace bascule {

// Error{kSettings} naming the first key that differs, with both values.
void check_same_settings(const ResumePoint& point, const std::vector<SettingValue>& now);

// Error{kData} naming the first file of data that is not what it was.
void check_same_data(const ResumePoint& point, const std::vector<SettingValue>& now);

}  // namespace bascule
