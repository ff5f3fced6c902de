// SPDX-License-Identifier: Apache-2.0
#include "src/seal/sealed_tapes.h"

#include <cstddef>
#include <cstring>

namespace bascule {

SealedTapes::SealedTapes(RecordedRun& run, Isa isa, const Arena& arena, Group& group)
    : threads_(run.threads, run.threads == usable_cores(), &group.heart(), &group.position()) {
  run.session.seal(arena, run.plan, kernels_for(isa), run.threads, &group);
  if (!run.graphs.trains()) return;
  const DistributedSettings& distributed = run.settings.distributed;
  Training& training = run.session.training();
  if (group.nodes() > 1) {
    const PlannedRange& lane = run.plan[kLaneMemory];
    training.update().connect(Span<std::byte>(arena.at(lane), lane.bytes), distributed.wire_type == WireType::kBf16);
  }
  if (group.size() > 1 && distributed.distribution_strategy == Strategy::kDdp)
    training.overlap_reduction(static_cast<std::size_t>(distributed.bucket_mib) << 20);
}

void SealedTapes::say_unpinned(void (*say)(const std::string& line)) const {
  if (threads_.pin_error() == 0) return;
  say(std::string("threads: the system refused to pin them to cores (") + std::strerror(threads_.pin_error()) +
      "): they may share a core or move, which is slower");
}

}  // namespace bascule
