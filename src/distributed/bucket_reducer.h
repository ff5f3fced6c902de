// SPDX-License-Identifier: Apache-2.0
// The reduction of `ddp`: gradients are summed bucket by bucket while backward still runs. A thread of each rank waits
// until a bucket's gradients are final on all ranks of the node, which their tape positions tell, and sums this rank's
// part of it; then the next one, in the order in which backward finishes them. Buckets that it has not begun when
// backward is over are left to the compute threads. Between nodes the thread also moves what is summed on the node,
// whenever it has nothing to sum.
//
//   BucketReducer reducer(group, marks, {&sum_bucket, nullptr, this});   // before the seal
//   position.begin_gradients(update);                         // before the last micro-batch
//   reducer.begin(update);  ...  const std::size_t done = reducer.finish();
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "src/distributed/group.h"

namespace bascule {

class BucketReducer {
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
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

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
