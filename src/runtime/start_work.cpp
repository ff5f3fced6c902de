// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/start_work.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/clock.h"

namespace bascule {

void StartWork::add(Kind kind, std::int64_t bytes, std::function<Status()> part,
                    std::function<Error(const Status&)> error_of) {
  figures_.bytes[static_cast<int>(kind)] += bytes;
  parts_.push_back({kind, std::move(part), std::move(error_of), ok_status(), 0});
}

void StartWork::touch(Span<std::byte> memory, HugePages pages, bool is_shared) {
  const std::size_t part_bytes = static_cast<std::size_t>(kPartBytes);
  const bool may_choose = pages == HugePages::kTransparent;
  for (std::size_t begin = 0; begin < memory.size(); begin += part_bytes) {
    const Span<std::byte> part = memory.subspan(begin, std::min(part_bytes, memory.size() - begin));
    add(
        Kind::kTouching, static_cast<std::int64_t>(part.size()),
        [this, part, may_choose, is_shared]() -> Status {
          const bool large = may_choose && pace_.prefers_large();
          const std::int64_t began = thread_cpu_ns();
          // The system forms no large pages of shared memory by itself.
          const int reason = may_choose && !large && !is_shared
                                 ? touch_small_pages(part.data(), part.size())
                                 : touch_memory(part.data(), part.size(), large && is_shared);
          if (may_choose) pace_.note(large, part.size(), thread_cpu_ns() - began);
          return reason == 0 ? ok_status() : Status{StatusCode::kReadFailed, {0, reason}};
        },
        [bytes = memory.size()](const Status& status) {
          return Error(ErrorKind::kMemory, "memory",
                       "cannot fill " + std::to_string(bytes >> 20) +
                           " MiB: " + std::strerror(static_cast<int>(status.detail[1])),
                       "see `bascule plan`");
        });
  }
}

void StartWork::run(Threads& threads) {
  // Each of the two lists keeps its order and is spread over the whole: part i of n at (i + 1/2) / n.
  std::vector<std::pair<double, std::size_t>> places;
  const auto is_touching = [](const Part& part) { return part.kind == Kind::kTouching; };
  const auto touching = std::count_if(parts_.begin(), parts_.end(), is_touching);
  const double count[] = {static_cast<double>(parts_.size()) - static_cast<double>(touching),
                          static_cast<double>(touching)};
  double place[] = {0.5, 0.5};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const int list = is_touching(parts_[i]) ? 1 : 0;
    places.emplace_back(place[list]++ / count[list], i);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> order;
  order.reserve(places.size());
  for (const auto& [at, part] : places) order.push_back(part);

  struct Arguments {
    Span<Part> parts;
    Span<const std::size_t> order;
  };
  const Arguments arguments = {Span<Part>(parts_), Span<const std::size_t>(order)};
  Step step;
  step.arguments = &arguments;
  step.tasks = [](const void* of, const Replay&) {
    return static_cast<std::int64_t>(static_cast<const Arguments*>(of)->order.size());
  };
  step.run = [](const void* of, const Replay&, std::int64_t task, int) {
    const Arguments& work = *static_cast<const Arguments*>(of);
    Part& part = work.parts[work.order[static_cast<std::size_t>(task)]];
    const std::int64_t began = monotonic_ns();
    part.status = part.run();
    part.nanoseconds = monotonic_ns() - began;
  };
  threads.replay({&step, 1}, Replay{}, {});
  const std::vector<Part> done = std::move(parts_);
  parts_.clear();
  for (const Part& part : done) {
    figures_.seconds[static_cast<int>(part.kind)] += 1e-9 * static_cast<double>(part.nanoseconds);
    if (!part.status.ok()) throw part.error_of(part.status);
  }
}

}  // namespace bascule
