// SPDX-License-Identifier: Apache-2.0
// The second and third part of the seal: the loader, then threads and tapes.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/isa.h"
#include "src/base/span.h"
#include "src/checkpoint/checkpoint.h"
#include "src/distributed/group.h"
#include "src/index/picture_folder.h"
#include "src/loader/loader.h"
#include "src/record/recorded_run.h"
#include "src/runtime/arena.h"
#include "src/runtime/threads.h"

namespace bascule {

// The second part of the seal, in the memory of the first: the loader with its workers, the digests of the pictures
// that it reads, and the watch over its progress. Before the compute threads: workers inherit this thread's cores, and
// it is pinned to one of them from then on. Before the seal; throws Error.

class SealedLoader {
 public:
  // data and arena outlive this; group is told of what is loaded as long as this lives.
  SealedLoader(const RunData& data, const MemoryPlan& plan, const Arena& arena, Group& group);

  Loader& loader() { return loader_; }

  // In a run that trains. Goes on with a checkpoint's digests of pictures and with its replaced samples. When memory
  // has been touched and weights are there: its errors come after theirs. Throws Error kData.
  void resume(const ResumePoint& point, const Group& group);

  // The digests of the training pictures by image id; none where samples have no picture, or nothing is trained.
  Span<PictureDigest> training_digests();
  // Room for a copy of them, which a checkpoint writes.
  Span<std::uint64_t> saved_digests();

 private:
  void resume_digests(const ResumePoint& point);

  const RunData& data_;
  Span<PictureDigest> digests_;  // of all streams
  std::uint64_t* saved_ = nullptr;
  Loader loader_;
  CountedProgress progress_;  // goes before what it counts
};

// The third part of the seal, in the memory of the first: the compute threads and the session's tapes, and for several
// ranks how gradients are summed over them. Before the seal; throws Error.

class SealedTapes {
 public:
  // Seals run.session. run, arena and group outlive this, which is made and ends in the same thread. simulates: the
  // run's threads are more than there are cores, and are simulated (runtime/threads.h).
  SealedTapes(RecordedRun& run, Isa isa, const Arena& arena, Group& group, bool simulates = false);

  Threads& threads() { return threads_; }
  BatchPieces* pieces() { return pieces_.get(); }  // null: batches go through the model whole
  void say_unpinned(void (*say)(const std::string& line)) const;

 private:
  Threads threads_;
  std::unique_ptr<BatchPieces> pieces_;
};

}  // namespace bascule
