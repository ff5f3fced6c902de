// SPDX-License-Identifier: Apache-2.0
// Summing gradients over the ranks of one machine, ours and Open MPI's, in the same processes one after the other; and
// the copy bandwidth of the same cores. Under mpirun; rank 0 prints one JSON document. tools/compare_allreduce runs it.
//
//   mpirun -np 2 bench_allreduce ROUNDS BYTES...
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "src/distributed/bucket_reducer.h"
#include "src/distributed/group.h"

namespace {

constexpr std::int64_t kBlock = 1 << 16;  // as the update's

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Times {
  double median = 0.0, least = 0.0;
};

Times times_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front()};
}

// Seconds of `action` on the slowest rank, in each of the rounds; `repeats` actions a round.
template <typename Action>
Times measure(bascule::Group& group, int rounds, int repeats, const Action& action) {
  std::vector<double> seconds;
  for (int round = 0; round <= rounds; ++round) {
    if (!group.barrier()) std::exit(5);
    const double began = now();
    for (int i = 0; i < repeats; ++i) action();
    double took = (now() - began) / repeats;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round > 0) seconds.push_back(took);  // the first warms up
  }
  return times_of(std::move(seconds));
}

struct Ranges {
  std::vector<float*> all;
  std::int64_t count = 0;
};

void sum_own_slice(bascule::Group& group, const bascule::KernelTable& kernels, const Ranges& ranges) {
  const std::int64_t blocks = (ranges.count + kBlock - 1) / kBlock;
  // Fewer elements than blocks for all: cut finer.
  const std::int64_t block = blocks >= group.size() ? kBlock : (ranges.count / group.size() + 15) / 16 * 16 + 16;
  const bascule::BlockRange slice = bascule::slice_of((ranges.count + block - 1) / block, group.rank(), group.size());
  std::vector<const float*> terms(ranges.all.size());
  for (std::int64_t b = slice.first; b < slice.first + slice.count; ++b) {
    const std::int64_t first = b * block, count = std::min(block, ranges.count - first);
    for (std::size_t r = 0; r < terms.size(); ++r) terms[r] = ranges.all[r] + first;
    kernels.sum_terms({ranges.all[static_cast<std::size_t>(group.rank())] + first, terms.data(),
                       static_cast<std::int64_t>(terms.size()), count});
  }
}

void compare(bascule::Group& group, std::size_t bytes, int rounds, bool last) {
  const bascule::KernelTable& kernels = bascule::kernels_for(bascule::best_isa());
  const std::size_t ranks = static_cast<std::size_t>(group.size());
  const bascule::SharedMemory memory = group.share(bytes * ranks);
  if (bascule::touch_memory(memory.data(), memory.bytes(), false) != 0) std::exit(4);
  Ranges ranges;
  ranges.count = static_cast<std::int64_t>(bytes / sizeof(float));
  for (std::size_t r = 0; r < ranks; ++r)
    ranges.all.push_back(static_cast<float*>(static_cast<void*>(memory.data() + r * bytes)));
  float* const mine = ranges.all[static_cast<std::size_t>(group.rank())];
  std::fill_n(mine, ranges.count, 1.0f);
  const int repeats = static_cast<int>(std::clamp<std::size_t>((std::size_t{8} << 20) / bytes, 1, 200));
  const Times ours = measure(group, rounds, repeats, [&] {
    if (!group.barrier()) std::exit(5);
    sum_own_slice(group, kernels, ranges);
    if (!group.barrier()) std::exit(5);
  });
  std::fill_n(mine, ranges.count, 1.0f);
  const Times theirs = measure(group, rounds, repeats, [&] {
    MPI_Allreduce(MPI_IN_PLACE, mine, static_cast<int>(ranges.count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  });
  // Every core copies at once, half of its rank's range onto the other half.
  const Times copies = measure(group, rounds, repeats, [&] {
    std::memcpy(mine + ranges.count / 2, mine, bytes / 2);
    if (!group.barrier()) std::exit(5);
  });
  const double bandwidth = static_cast<double>(bytes * ranks) / copies.least;
  const double must_move = static_cast<double>(bytes * (ranks + 1));
  if (group.rank() == 0) {
    std::printf(
        " {\"bytes\": %zu, \"ours_seconds\": {\"median\": %.9f, \"min\": %.9f}, \"mpi_seconds\": {\"median\": %.9f, "
        "\"min\": %.9f}, "
        "\"copy_bytes_per_second\": %.0f, \"limit_seconds\": %.9f, \"of_limit\": %.4f}%s\n",
        bytes, ours.median, ours.least, theirs.median, theirs.least, bandwidth, must_move / bandwidth,
        must_move / bandwidth / ours.median, last ? "" : ",");
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    bascule::Group group(bascule::place_from_environment(), {60, nullptr});
    group.take_cores();
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
    if (group.rank() == 0)
      std::printf("{\"ranks\": %d, \"isa\": \"%s\", \"sizes\": [\n", group.size(),
                  bascule::isa_name(bascule::best_isa()));
    for (int i = 2; i < argc; ++i)
      compare(group, static_cast<std::size_t>(std::strtoull(argv[i], nullptr, 10)), rounds, i + 1 == argc);
    if (group.rank() == 0) std::printf("]}\n");
    if (!group.leave()) return 5;
  }
  MPI_Finalize();
  return 0;
}
