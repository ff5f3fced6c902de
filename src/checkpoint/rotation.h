// SPDX-License-Identifier: Apache-2.0
// Which checkpoints of a run stay: as many as save_total_limit says, the newest and the best among them. After the seal
// too: allocates nothing.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/files/durable_write.h"

namespace bascule {

class CheckpointRotation {
 public:
  // limit: 0 for all. keeps_later: checkpoints of later steps than the newest could not be read and stay until this run
  // replaces them; else they belong to a run that was given up, and go.
  CheckpointRotation(std::string output_dir, std::int64_t limit, bool keeps_later = false)
      : output_dir_(std::move(output_dir)), limit_(limit), keeps_later_(keeps_later) {}

  // After one was saved. best: the step of the best one, or -1.
  Status remove_old(std::int64_t newest, std::int64_t best) noexcept {
    return remove(newest, best, limit_, keeps_later_);
  }
  // All but this one.
  Status keep_only(std::int64_t step) noexcept { return remove(step, step, 1, false); }

  // After a failure: the folder that could not be removed.
  const PathBuffer& failed_path() const noexcept { return failed_path_; }

 private:
  Status remove(std::int64_t newest, std::int64_t best, std::int64_t limit, bool keeps_later) noexcept;

  std::string output_dir_;
  std::int64_t limit_;
  bool keeps_later_;
  PathBuffer failed_path_;
};

}  // namespace bascule
