// SPDX-License-Identifier: Apache-2.0
// `bascule bench`: steady-state speed of a settings file's training step, beside the ceiling that this machine allows.
// Fresh weights, real data, no files written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

struct BenchArguments {
  std::string settings_file;
  std::int64_t steps = 20;  // measured, after the warm-up
  std::int64_t warmup = 3;
  // One column for each number of loader workers with the host engine, then one with the program's own where that is
  // another; empty: one column, the file's own.
  std::vector<std::int64_t> workers;
  bool json = false;
};

// Returns 0. Throws Error as `bascule run` would.
int bench_command(const BenchArguments& arguments);

}  // namespace bascule
