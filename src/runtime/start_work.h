// SPDX-License-Identifier: Apache-2.0
// The long part of a start, cut into parts for all threads: memory is touched while weights are read or computed, so
// that no core waits for a disk or for another core. Before the seal.
//
//   StartWork work;
//   work.touch(arena.memory(), arena.huge_pages(), false);
//   work.add(StartWork::Kind::kReading, bytes, read_part, error_of_part);
//   work.run(threads);
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/base/error.h"
#include "src/base/mapped_memory.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/runtime/threads.h"

namespace bascule {

class StartWork : NonCopyable {
 public:
  enum class Kind { kTouching, kReading, kComputing };
  static constexpr int kKinds = 3;
  static constexpr std::int64_t kPartBytes = std::int64_t{32} << 20;  // of a part, at most: about 10 ms

  // `part` throws nothing and may run at the same time as any other; error_of says what its failure means.
  void add(Kind kind, std::int64_t bytes, std::function<Status()> part, std::function<Error(const Status&)> error_of);
  // Makes memory resident that was mapped with these pages. is_shared: with other processes.
  void touch(Span<std::byte> memory, HugePages pages, bool is_shared);

  // Runs the parts added since the last call, those of touching between the others. Throws the error of that failed
  // part which was added first.
  void run(Threads& threads);

  // The sums over all calls, by kind: bytes, and the seconds of all threads together.
  struct Figures {
    std::int64_t bytes[kKinds] = {};
    double seconds[kKinds] = {};
  };
  const Figures& figures() const { return figures_; }

 private:
  struct Part {
    Kind kind;
    std::function<Status()> run;
    std::function<Error(const Status&)> error_of;
    Status status;
    std::int64_t nanoseconds = 0;
  };

  std::vector<Part> parts_;
  Figures figures_;
  PagePace pace_;
};

}  // namespace bascule
