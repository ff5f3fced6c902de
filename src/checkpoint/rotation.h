// SPDX-License-Identifier: Apache-2.0
// Which checkpoints of a run stay: as many as save_total_limit says, the newest and the best among them. After the seal
// too: allocates nothing.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/checkpoint/durable_write.h"

namespace bascule {

class CheckpointRotation {
 public:
  // limit: 0 for all.
  CheckpointRotation(std::string output_dir, std::int64_t limit) : output_dir_(std::move(output_dir)), limit_(limit) {}

  // After one was saved. best: the step of the best one, or -1. Those of later steps than `newest` belong to a run that
  // was given up, and go.
  Status remove_old(std::int64_t newest, std::int64_t best) noexcept { return remove(newest, best, limit_); }
  // All but this one.
  Status keep_only(std::int64_t step) noexcept { return remove(step, step, 1); }

  // After a failure: the folder that could not be removed.
  const PathBuffer& failed_path() const noexcept { return failed_path_; }

 private:
  Status remove(std::int64_t newest, std::int64_t best, std::int64_t limit) noexcept;

  std::string output_dir_;
  std::int64_t limit_;
  PathBuffer failed_path_;
};

}  // namespace bascule
