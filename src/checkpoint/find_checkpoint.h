// SPDX-License-Identifier: Apache-2.0
// Which checkpoint of an output folder a run goes on from. Before the seal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace bascule {

// The newest checkpoint that is whole: state readable, every listed file there with its size, safetensors headers
// sound. For each newer one that is not, a line is added to `notes`. Removes leftovers of killed saves first. Absent
// output_dir: none.
std::optional<ResumePoint> find_newest_checkpoint(const std::string& output_dir, std::vector<std::string>* notes);

// Whether output_dir holds the checkpoint of a step. Reads nothing of it.
bool has_checkpoint(const std::string& output_dir, std::int64_t step);

}  // namespace bascule
