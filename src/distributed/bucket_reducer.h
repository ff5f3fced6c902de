// SPDX-License-Identifier: Apache-2.0
// How ranks divide a sum, and the reduction bucket by bucket.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "src/base/span.h"
#include "src/distributed/group.h"

namespace bascule {

// Divides the work of summing and updating among the ranks. The update cuts the trained range into blocks; the ranks of
// a node share them out, and one block is summed, measured and updated by one rank: every strategy adds the same
// numbers in the same order, and gives the same bits.

struct BlockRange {
  std::int64_t first = 0, count = 0;
};

// fast_ddp: one contiguous slice a rank; counts differ by at most one.
constexpr BlockRange slice_of(std::int64_t blocks, int local_rank, int local_size) noexcept {
  const std::int64_t begin = blocks * local_rank / local_size;
  return {begin, blocks * (local_rank + 1) / local_size - begin};
}

// Between nodes: the blocks of a lane and a bucket are cut into one contiguous slice a node, as equal in elements as
// blocks permit, and every bucket's first slice is another node's. In an order in which the owners take turns, so that
// all have something to send and to receive at any time.
struct OwnedBlock {
  std::int64_t block = 0;
  int owner = 0;
};
inline std::vector<OwnedBlock> owned_in_turn(const std::vector<std::int64_t>& elements, std::int64_t bucket,
                                             int nodes) {
  const std::int64_t all = std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
  std::vector<std::vector<std::int64_t>> slices(static_cast<std::size_t>(nodes));
  std::int64_t before = 0;
  for (std::size_t b = 0; b < elements.size(); ++b) {
    slices[static_cast<std::size_t>((before + elements[b] / 2) * nodes / all)].push_back(static_cast<std::int64_t>(b));
    before += elements[b];
  }
  std::vector<OwnedBlock> turns;
  for (std::size_t turn = 0; turns.size() < elements.size(); ++turn) {
    for (std::size_t slice = 0; slice < slices.size(); ++slice) {
      if (turn >= slices[slice].size()) continue;
      turns.push_back({slices[slice][turn], static_cast<int>((static_cast<std::int64_t>(slice) + bucket) % nodes)});
    }
  }
  return turns;
}

// The reduction of `ddp`: gradients are summed bucket by bucket while backward still runs. A thread of each rank waits
// until a bucket's gradients are final on all ranks of the node, which their tape positions tell, and sums this rank's
// part of it; then the next one, in the order in which backward finishes them. Buckets that it has not begun when
// backward is over are left to the compute threads. Between nodes the thread also moves what is summed on the node,
// whenever it has nothing to sum.
//
//   BucketReducer reducer(group, marks, {&sum_bucket, nullptr, this});   // before the seal
//   position.begin_gradients(update);                         // before the last micro-batch
//   reducer.begin(update);  ...  const std::size_t done = reducer.finish();

class BucketReducer : NonCopyable {
 public:
  // Called by the reducer's thread.
  struct Work {
    void (*sum)(void* context, std::size_t bucket) noexcept;
    // Goes on with the first `summed` buckets between nodes; whether there was anything to do. Null: one node.
    bool (*move)(void* context, std::size_t summed) noexcept;
    void* context;
  };

  // marks: of each bucket, in order, the operations of the tape after which its gradients are final; they do not fall.
  BucketReducer(Group& group, std::vector<std::int64_t> marks, const Work& work);
  ~BucketReducer();

  // After the seal. The last micro-batch of an update begins.
  void begin(std::int64_t update) noexcept;
  // Returns when the thread is at rest: so many buckets, the first ones, are summed. Also where nothing was begun.
  std::size_t finish() noexcept;

 private:
  void serve() noexcept;
  void sum_buckets(std::int64_t update) noexcept;
  void move_or_sleep() noexcept;
  bool is_final(std::int64_t update, std::size_t bucket) const noexcept;

  Group& group_;
  const std::vector<std::int64_t> marks_;
  const Work work_;
  sem_t begun_;                          // where the thread sleeps between updates: at no time of a core
  std::atomic<std::int64_t> update_{0};  // that it works for; minus one: leave
  std::atomic<bool> shall_rest_{true};   // begin no further bucket
  std::atomic<std::int64_t> rested_{0};  // the update that it is done with
  std::size_t done_ = 0;                 // buckets; the thread's until it rests
  int still_looks_ = 0;                  // since something moved between nodes; the thread's
  std::thread thread_;
};

}  // namespace bascule
