// SPDX-License-Identifier: Apache-2.0
// `bascule bench`: steady-state speed of a settings file's training step, or of a batch of its evaluation, beside the
// ceiling that this machine allows. Fresh weights, real data, no files written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

// The columns differ in this.
enum class BenchAxis {
  kWorkers,         // loader workers, with the host engine, then the program's own engine where that is another
  kBatch,           // samples of a micro-batch, or of a batch of the evaluation
  kImageSize,       // side of the pictures
  kSequenceLength,  // tokens of a text at most
  kSourceLength,    // tokens of a source at most
  kTargetLength,    // tokens of a target at most
  kBeams,           // of a search for texts
};

struct BenchArguments {
  std::string settings_file;
  std::int64_t steps = 20;  // measured, after the warm-up
  std::int64_t warmup = 3;
  BenchAxis axis = BenchAxis::kWorkers;
  std::vector<std::int64_t> values;  // one column for each; empty: one column, the file's own
  std::string use;                   // "train", "evaluate" or "generate"; empty: train, where the run trains
  std::int64_t new_tokens = 0;       // every text has so many; 0: as the settings say
  bool json = false;
};

// Returns 0. Throws Error as `bascule run` would.
int bench_command(const BenchArguments& arguments);

}  // namespace bascule
