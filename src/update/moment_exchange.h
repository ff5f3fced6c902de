// SPDX-License-Identifier: Apache-2.0
// Saving moments that the nodes share out: rank 0 reads any part of them, of other nodes' by asking their first ranks,
// which answer until it has done. After the seal, by the first ranks of all nodes together.
//
//   rank 0: exchange.read(...) ...; exchange.finish();        others: exchange.serve();
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/distributed/group.h"
#include "src/update/moment_shards.h"

namespace bascule {

class MomentExchange {
 public:
  static constexpr int kMoments = 2;  // exp_avg, exp_avg_sq

  // A tensor of a moment, from element `first` of the range of parameters on.
  struct Part {
    MomentExchange* exchange = nullptr;
    int moment = 0;
    std::int64_t first = 0;
  };

  // This node's ranges of moments. Before the seal.
  MomentExchange(Group& group, const MomentShards& shards, const float* exp_avg, const float* exp_avg_sq)
      : group_(group), shards_(shards), moments_{exp_avg, exp_avg_sq} {}

  // Elements [first, first + count) of the range of parameters. kRankFailed where another node is gone.
  Status read(int moment, std::int64_t first, std::int64_t count, float* destination) noexcept;
  // As a TensorReader: part is a Part.
  static Status read_part(void* part, float* destination, std::int64_t first, std::int64_t count) noexcept;
  Status finish() noexcept;
  Status serve() noexcept;

 private:
  struct Request {
    std::int64_t moment = 0, place = 0, count = 0;  // of the node's range; count 0: no more
  };

  Group& group_;
  const MomentShards& shards_;
  const float* const moments_[kMoments];
};

}  // namespace bascule
