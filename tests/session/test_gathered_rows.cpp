// SPDX-License-Identifier: Apache-2.0
// The rows of all ranks on several nodes, simulated on one machine; run by mpirun, see meson.build. Argument: how many
// ranks a node has.
#include "src/session/shared_by_ranks.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/distributed/place_on_nodes.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kWidth = 3;
constexpr int kOperands = 3;
Group* all = nullptr;

float value(std::int64_t sample, int operand, std::int64_t column) {
  return static_cast<float>(100 * sample + 10 * operand + column);
}

// The second batch is smaller, so that ranks have shares of different size.
TEST(GatheredRows, AreThoseOfAllRanksInTheirOrder) {
  const BatchCut cut{5 * all->size() + 1, all->size(), 3};
  const SharedMemory memory = all->share(GatheredRows::bytes(cut.global_batch(), kOperands * kWidth));
  GatheredRows gathered(*all, memory.data(), kOperands * kWidth);
  ASSERT_EQ(cut.batches_per_epoch(), 2);
  for (std::int64_t index = 0; index < 2; ++index) {
    const SampleRange batch = cut.batch(index), share = cut.share(batch, all->rank());
    const Peers peers = gathered.peers(cut, cut.batch(index));
    EXPECT_EQ(peers.first, share.begin - batch.begin);
    std::vector<float> own[kOperands], every[kOperands];
    const float* rows[kOperands];
    float* out[kOperands];
    for (int i = 0; i < kOperands; ++i) {
      for (std::int64_t s = 0; s < share.count; ++s) {
        for (std::int64_t c = 0; c < kWidth; ++c) own[i].push_back(value(share.begin + s, i, c));
      }
      every[i].resize(static_cast<std::size_t>(batch.count * kWidth));
      rows[i] = own[i].data();
      out[i] = every[i].data();
    }
    peers.gather(peers.context, out, rows, kOperands, share.count, kWidth);
    for (int i = 0; i < kOperands; ++i) {
      for (std::int64_t s = 0; s < batch.count; ++s) {
        for (std::int64_t c = 0; c < kWidth; ++c)
          EXPECT_EQ(out[i][s * kWidth + c], value(batch.begin + s, i, c)) << "rank " << all->rank();
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test

int main(int argc, char** argv) { return bascule::test::run_on_nodes(argc, argv, &bascule::test::all); }
