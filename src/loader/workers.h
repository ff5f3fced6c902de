// SPDX-License-Identifier: Apache-2.0
// The workers of a loader, their threads, the media engine and the memory that they work in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/span.h"
#include "src/loader/loader.h"
#include "src/loader/media.h"
#include "src/loader/stream.h"
#include "src/loader/worker.h"

namespace bascule {

// By category, as the loader's plan has them: buffers of all jobs, scratch and pictures of all workers, the engine's
// budget.
struct WorkersMemory {
  Span<std::byte> buffers, scratch, augmenting, media;
};

class Workers : NonCopyable {
 public:
  // Before the seal. Streams and memory outlive this. Throws Error.
  Workers(const LoaderSettings& settings, const LoaderPlan& plan, std::vector<StreamState*> streams,
          const WorkersMemory& memory);
  ~Workers();

  // After the seal, as all below. A stream was started: samples can be claimed.
  void note_start() noexcept;
  // A slot was opened.
  void wake() noexcept { crew_.work.raise(); }
  // Returns when the batch is ready: sleeps, or works where there are no threads.
  void await(StreamState& stream, std::int64_t number) noexcept;
  // Threads, or the one that calls await().
  std::int64_t worker_count() const noexcept { return static_cast<std::int64_t>(workers_.size()); }
  LoaderStatistics statistics() const noexcept;
  std::uint64_t loaded_samples() const noexcept;
  std::int64_t row_being_read() const noexcept;
  void close() noexcept;

 private:
  void start_threads(std::int64_t count);

  std::vector<StreamState*> streams_;
  std::vector<Job> jobs_;
  std::unique_ptr<Media> media_;
  media_engine_statistics final_media_ = {};  // once closed
  Crew crew_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
};

}  // namespace bascule
