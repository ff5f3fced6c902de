// SPDX-License-Identifier: Apache-2.0
// Replay of a run that draws: a batch of pictures through its graphs, and the missing pictures, batch after batch.
// Sealed: allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/distributed/agreement.h"
#include "src/distributed/group.h"
#include "src/logs/progress.h"
#include "src/record/recorded_draw_run.h"
#include "src/runtime/arena.h"
#include "src/runtime/threads.h"

namespace bascule {

struct DrawingSeconds {
  double prompts = 0.0, calls = 0.0, decoding = 0.0;
};

bool are_finite(const float* values, std::int64_t count) noexcept;

// The pictures of a batch, stage by stage:
//
//   begin(numbers); for each call: call(c); for each place: decode(place)
class BatchDrawer {
 public:
  // run outlives this.
  explicit BatchDrawer(RecordedDrawRun& run);
  // Before the seal, with a sealed session. threads outlive this.
  void seal(const Arena& arena, Threads& threads);

  // Encodes the prompts of the pictures with these numbers in the list, at most a batch, and sets their noise.
  // kReadFailed where latents cannot be read.
  Status begin(Span<const std::int64_t> numbers) noexcept;
  std::size_t calls() const noexcept { return run_.program.calls.size(); }
  // One call of the UNet for all of them, and the sampler's step. After the last one they may be decoded.
  void call(std::size_t number) noexcept;
  // A picture by its place in the batch: (height, width, 3), until the next call. Null: its latents or its pixels are
  // not finite.
  const std::uint8_t* decode(std::int64_t place) noexcept;
  // By place: of the noise, then of the latents after each call.
  Span<const std::uint64_t> latent_digests(std::int64_t place) const noexcept;

  const DrawingSeconds& seconds() const { return seconds_; }
  // How often a text was encoded.
  std::int64_t encoded_texts() const { return encoded_texts_; }
  // For measuring single replays.
  Drawer& drawer() { return drawer_; }

 private:
  // The place of a text's keys and values, encoded if they are not there.
  std::int32_t place_of(std::int32_t text) noexcept;
  Status set_noise(const ListedPicture& picture, std::int64_t number, std::int64_t place) noexcept;
  // Of the latents in this slot, which `call` calls have made.
  void digest_latents(int slot, std::int64_t call) noexcept;

  RecordedDrawRun& run_;
  Threads* threads_ = nullptr;
  Drawer drawer_;
  std::uint8_t* bytes_ = nullptr;
  std::uint64_t* digests_ = nullptr;  // of latents: (batch, latent_digests())
  std::vector<float> noise_;          // of one picture, where latents come from a file
  std::vector<std::int32_t> kept_;    // by place: the text there; -1: none
  std::vector<std::int64_t> used_;    // by place: the last batch that read it
  std::vector<DrawnPrompt> prompts_;  // of the batch
  std::size_t pictures_ = 0;          // the same
  std::int64_t batches_ = 0, encoded_texts_ = 0;
  DrawingSeconds seconds_;
};

// The work of one process; on the first rank with the pictures of all.
struct DrawTimes {
  std::int64_t pictures = 0;  // drawn
  double seconds = 0.0;       // of drawing, with all stages
  double writing_seconds = 0.0;
  DrawingSeconds stages;
  std::int64_t replays = 0;        // of the noise graph: one call for all pictures of a batch
  std::int64_t encoded_texts = 0;  // prompts and negative prompts
  // Without the first throughput_warmup_batches batches; 0 where no batch was drawn after them.
  std::int64_t timed_pictures = 0;
  double timed_seconds = 0.0;
};

// How far a drawing is. calls: 0 where none is under way of the next pictures.
ProgressStep drawing_step(std::int64_t done, std::int64_t next, std::size_t call, std::size_t calls) noexcept;

// Ranks take whole batches, round robin; each writes the files of its pictures, and the first one the lines of all.
class DrawLoop {
 public:
  // Before the seal; everything is borrowed. queue: of several ranks. status: null for ranks other than the first.
  // stop: the number of a signal once one has come.
  DrawLoop(RecordedDrawRun& run, BatchDrawer& drawer, DrawnQueue queue, Group& group, RunStatus* status,
           const volatile int* stop);

  // By all ranks; returns when every line is written. kStopped in all of them where a signal came to one.
  Status run() noexcept;

  const DrawTimes& times() const { return times_; }

 private:
  Status draw_missing() noexcept;
  Status draw_batch(std::size_t number) noexcept;
  Status keep(const DrawnPicture& picture, std::int64_t place) noexcept;
  Status collect() noexcept;
  Status wait_for_others() noexcept;
  bool rest() noexcept;
  void mark_warm() noexcept;
  int stop_signal() noexcept;
  bool is_stopped() noexcept;
  void show(std::size_t call) noexcept;
  std::size_t batch() const noexcept { return static_cast<std::size_t>(run_.options.batch); }
  std::int64_t drawn() const noexcept { return static_cast<std::int64_t>(files_.done().size() - found_); }

  RecordedDrawRun& run_;
  BatchDrawer& drawer_;
  DrawnQueue queue_;
  Group& group_;
  RankAgreement agreement_;
  PictureFiles& files_;
  const volatile int* stop_;
  int signal_ = 0;  // before all was drawn
  const std::vector<std::int64_t> missing_;
  const std::size_t found_;
  std::int64_t under_way_ = 0;  // pictures of all ranks in this round
  // When the first throughput_warmup_batches of all ranks were there.
  bool is_warm_ = false;
  std::int64_t warm_pictures_ = 0;
  double warm_seconds_ = 0.0;
  DrawTimes times_;
  Progress progress_;
};

// The error for a status of the loop.
Error drawing_error(const Status& status, const RecordedDrawRun& run);

}  // namespace bascule
