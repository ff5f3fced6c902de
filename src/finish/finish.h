// SPDX-License-Identifier: Apache-2.0
// The last phase: what the run kept is made into the model folder, embeddings, result files, model card and
// report.html. The door is open again: allocates, throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/report.h"
#include "src/finish/bad_samples.h"
#include "src/record/run_inputs.h"
#include "src/seal/sealed_run.h"

namespace bascule {

// Figures measured before memory is opened again.
struct SealedFigures {
  std::uint64_t resident_bytes = 0;                  // of all ranks
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // of gradients, by all ranks of this machine
  bool guarded = false;
  std::uint64_t foreign_calls = 0, foreign_bytes = 0;  // allocations by libraries in this process after the seal
  std::vector<NamedText> foreign_allocations;          // library -> "n calls, m bytes"
};

Report make_report(SealedRun& sealed, const SealedFigures& figures, const std::vector<SkippedSamples>& skipped);

// Writes the judge's results of the split that was evaluated last: its file in output_dir, and examples in the report.
// Removes such files of an earlier run that this one does not write again.
void write_judged(SealedRun& sealed, Report* report);

// Everything else into output_dir.
void write_run_folder(SealedRun& sealed, const Report& report);

}  // namespace bascule
