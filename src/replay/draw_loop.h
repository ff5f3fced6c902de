// SPDX-License-Identifier: Apache-2.0
// Replay of a run that draws: the missing pictures, batch after batch. Ranks take whole batches, round robin; each
// writes the files of its pictures, and the first one the lines of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/error.h"
#include "src/base/status.h"
#include "src/bringup/machine_limits.h"
#include "src/distributed/group.h"
#include "src/logs/progress.h"
#include "src/replay/sealed_draw_run.h"

namespace bascule {

// The work of a run that draws.
struct DrawResults {
  std::int64_t pictures = 0;  // drawn by this process
  std::int64_t found = 0;     // that were there already
  double seconds = 0.0;       // of drawing, with all stages
  double writing_seconds = 0.0;
  std::int64_t replays = 0;  // of the noise graph: one call for all pictures of a batch
  DrawingSeconds stages;
  std::int64_t encoded_texts = 0;  // prompts and negative prompts, in all processes
  // Without the first throughput_warmup_batches batches; 0 where no batch was drawn after them.
  std::int64_t timed_pictures = 0;
  double timed_seconds = 0.0;
  std::size_t planned_bytes = 0, resident_bytes = 0;
  bool guarded = false;                                // allocations were watched
  std::uint64_t foreign_calls = 0, foreign_bytes = 0;  // allocations by libraries since the seal
  MachineLimits limits;                                // zeros: not measured
};

class DrawLoop final : public DrawingWatch {
 public:
  // Everything is borrowed. status: null for ranks other than the first. stop: the number of a signal once one has
  // come.
  DrawLoop(RecordedDrawRun& run, SealedDrawRun& sealed, Group& group, RunStatus* status, const volatile int* stop);

  // Sealed; by all ranks. Returns on the first one when every line is written. signal: 0, or the one that came. Counts
  // into `results` what this rank did, and on the first one also the pictures of all.
  Status run(DrawResults* results, int* signal) noexcept;

  int called(std::int64_t call, std::int64_t calls) noexcept override;

 private:
  Status draw_batch(std::size_t number, DrawResults* results, int* signal) noexcept;
  Status keep(const DrawnPicture& picture, std::int64_t place) noexcept;
  Status collect() noexcept;
  Status wait_for_others() noexcept;
  bool rest() noexcept;
  void mark_warm() noexcept;
  int stop_signal() noexcept;
  void show(std::int64_t call, std::int64_t calls) noexcept;
  std::size_t batch() const noexcept { return static_cast<std::size_t>(run_.options.batch); }
  std::int64_t drawn() const noexcept { return static_cast<std::int64_t>(files_.done().size() - found_); }

  RecordedDrawRun& run_;
  SealedDrawRun& sealed_;
  Group& group_;
  PictureFiles& files_;
  DrawnQueue queue_;
  const volatile int* stop_;
  const std::vector<std::int64_t> missing_;
  const std::size_t found_;
  Status collected_;           // of the other ranks' pictures
  std::size_t under_way_ = 0;  // pictures of all ranks in this round
  std::int64_t replays_ = 0;
  // When the first throughput_warmup_batches of all ranks were there.
  bool is_warm_ = false;
  std::int64_t warm_pictures_ = 0;
  double warm_seconds_ = 0.0;
  Progress progress_;
};

// The error for a status of the loop.
Error drawing_error(const Status& status, const RecordedDrawRun& run);

}  // namespace bascule
