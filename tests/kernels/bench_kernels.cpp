// SPDX-License-Identifier: Apache-2.0
// How fast each kernel is on one core, beside this machine's copy speed: one JSON line per problem.
//
//   bench_kernels [WORD]          problems whose text contains WORD, such as "layer_norm" or "isa=avx512"
//
// Warm: the same arrays again and again, so that problems smaller than the caches show the arithmetic, larger ones the
// memory. `bytes` are those that must move. `copy_gb_per_s` is that of a plain copy of as many bytes, measured just
// before; `of_copy` the share of it. 15 runs after 2 for warmth; median and minimum.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/bringup/kernel_problems.h"

namespace bascule {
namespace {

struct Timing {
  double median_ns, min_ns;
};

Timing time_of(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> ns;
  for (int i = 0; i < 17; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    const double elapsed = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    if (i >= 2) ns.push_back(elapsed);
  }
  std::sort(ns.begin(), ns.end());
  return {ns[ns.size() / 2], ns[0]};
}

double copy_gb_per_s(std::vector<char>* memory, double bytes) {
  const std::size_t half = std::min(static_cast<std::size_t>(bytes / 2), memory->size() / 2);
  const Timing t = time_of([&] { std::memcpy(memory->data() + memory->size() / 2, memory->data(), half); });
  return 2.0 * static_cast<double>(half) / t.median_ns;
}

void run(const KernelProblem& problem, const std::string& word, std::vector<char>* copy_memory) {
  for (const Isa isa : kAllIsas) {
    const std::string text = problem.text + " isa=" + isa_name(isa) + " threads=1";
    if (!isa_supported(isa) || text.find(word) == std::string::npos) continue;
    const KernelTable& kernels = kernels_for(isa);
    const double copy = copy_gb_per_s(copy_memory, problem.bytes);
    const Timing t = time_of([&] { problem.run(kernels); });
    std::printf(
        "{\"problem\": \"%s\", \"median_ns\": %.0f, \"min_ns\": %.0f, \"gb_per_s\": %.1f, "
        "\"copy_gb_per_s\": %.1f, \"of_copy\": %.2f}\n",
        text.c_str(), t.median_ns, t.min_ns, problem.bytes / t.median_ns, copy, problem.bytes / t.median_ns / copy);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  cpu_set_t one;
  CPU_ZERO(&one);
  const int cpu = sched_getcpu();
  if (cpu >= 0) CPU_SET(static_cast<unsigned>(cpu), &one);
  sched_setaffinity(0, sizeof one, &one);
  std::vector<char> copy_memory(std::size_t{1} << 27, 1);
  for (const bascule::KernelSizes& sizes : {bascule::KernelSizes::base(), bascule::KernelSizes::small()}) {
    bascule::KernelProblems problems(sizes);
    for (const auto& group : problems.groups()) {
      problems.reset(group);
      for (const bascule::KernelProblem& problem : group.problems)
        bascule::run(problem, argc > 1 ? argv[1] : "", &copy_memory);
    }
  }
  return 0;
}
