// SPDX-License-Identifier: Apache-2.0
// `bascule bench`: steady-state speed of a settings file's training step, of a batch of its evaluation, or of the
// stages of a run that draws, beside the ceiling that this machine allows. Real data, no files written; a run that
// draws has its own weights, all others fresh ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/settings/run_settings.h"

namespace bascule {

// The columns differ in this.
enum class BenchAxis {
  kWorkers,         // loader workers, with the host engine, then the program's own engine where that is another
  kBatch,           // samples of a micro-batch, or of a batch of the evaluation; pictures drawn at a time
  kImageSize,       // side of the pictures
  kSequenceLength,  // tokens of a text at most
  kSourceLength,    // tokens of a source at most
  kTargetLength,    // tokens of a target at most
  kBeams,           // of a search for texts
  kSide,            // of pictures that are drawn
};

struct BenchArguments {
  SettingsSource settings;
  std::int64_t steps = 20;  // measured, after the warm-up
  std::int64_t warmup = 3;
  BenchAxis axis = BenchAxis::kWorkers;
  std::vector<std::int64_t> values;  // one column for each; empty: one column, the file's own
  std::string use;                   // "train", "evaluate", "generate" or "draw"; empty: draw or train, as the run does
  std::int64_t new_tokens = 0;       // every text has so many; 0: as the settings say
  bool json = false;
};

// "--batch" of kBatch.
const char* option_of(BenchAxis axis);

// Returns 0. Throws Error as `bascule run` would.
int bench_command(const BenchArguments& arguments);

}  // namespace bascule
