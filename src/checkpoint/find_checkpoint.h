// SPDX-License-Identifier: Apache-2.0
// Finds the checkpoint that a run resumes from. Before the seal; nothing is changed on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"

namespace bascule {

// training.resume, but for "never".
struct ResumeChoice {
  bool may_be_older = false;  // an older checkpoint will do where the newest cannot be used
  // A checkpoint to begin from, of this run or of another; "" for none. Where the newest checkpoint of the output
  // folder began there itself, the run goes on from that one: the same command goes on, however often it is stopped.
  std::string begin_from;
};

// How closely a checkpoint is looked at: its state, sizes and headers; or every byte too, by its checksum.
enum class CheckpointCheck { kHeaders, kContents };

// The steps of our checkpoints in a folder, newest first. Error{kSettings} for anything else that has the name of one,
// Error{kData} if that was one of ours but has lost its state.
std::vector<std::int64_t> checkpoint_steps(const std::string& output_dir);

// Whether the choice names a checkpoint to begin from and the newest one of the folder did not begin there.
bool begins_again(const std::string& output_dir, const ResumeChoice& choice);

// Nothing if there is none. Error{kData} if the checkpoint to go on from cannot be used: which file, why, and what
// would be lost by going on from an older one. `notes`, a line each: what is lost, or given up, by going on from the
// one found.
std::optional<ResumePoint> find_checkpoint(const std::string& output_dir, const ResumeChoice& choice,
                                           CheckpointCheck check, std::vector<std::string>* notes);

// Whether output_dir holds the checkpoint of a step. Reads nothing of it.
bool has_checkpoint(const std::string& output_dir, std::int64_t step);

}  // namespace bascule
