// SPDX-License-Identifier: Apache-2.0
// A run that draws, recorded and planned: which pictures, the graphs, the memory; and the files that it reads. Nothing
// is loaded or mapped yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/files/input_file.h"
#include "src/generate/drawer.h"
#include "src/record/check_fits.h"
#include "src/record/picture_files.h"
#include "src/record/recorded_run.h"

namespace bascule {

inline constexpr char kLatentsTensor[] = "latents";  // of draw.latents_file

// Categories of its plan beside the session's.
inline constexpr char kDrawingMemory[] = "drawing", kPictureMemory[] = "pictures";
inline constexpr char kQueueMemory[] = "lines of pictures";  // of several ranks, which share it

struct RecordedDrawRun : PlannedRun {
  using PlannedRun::PlannedRun;

  Pipeline pipeline;
  SamplingProgram program;
  PictureList list;
  std::uint64_t tokenizer_digest = 0;
  DrawingOptions options;
  RecordedDrawing recorded;
  TensorSource latents;  // draw.latents_file, where it is given
  std::unique_ptr<PictureFiles> files;

  std::int64_t picture_pixels() const { return options.height * options.width; }
  // Digests of the noise and of the latents after each call.
  std::int64_t latent_digests() const { return static_cast<std::int64_t>(program.calls.size()) + 1; }
  // In the category of pictures: the bytes of one picture, the digests of a batch's latents, the memory of `files`.
  std::size_t digests_offset() const { return align_up(static_cast<std::size_t>(3 * picture_pixels()), kCacheLine); }
  std::size_t files_offset() const {
    const std::size_t digests = static_cast<std::size_t>(options.batch * latent_digests());
    return digests_offset() + align_up(digests * sizeof(std::uint64_t), kCacheLine);
  }
};

// place: of this process among ranks of one machine. Throws Error: kSettings, kData.
std::unique_ptr<RecordedDrawRun> record_draw_run(const Settings& settings, const RankPlace& place = {});

// Throws Error kMemory if the plan needs more memory than a limit allows, naming what would fit.
void check_fits(const RecordedDrawRun& run, const std::vector<MemoryLimit>& limits);

// The files that a run that draws reads: what must be on another machine for the same pictures. Before the seal.

// The files of every part of the pipeline, of the tokenizer, of prompts and of latents; not the settings file, and
// nothing in output_dir. Reads the parts' indexes of weights and no weights. Throws Error kData where weights are
// missing.
std::vector<InputFolder> draw_inputs(const RecordedDrawRun& run);

// The same files with their paths.
std::vector<std::string> draw_input_paths(const RecordedDrawRun& run);

}  // namespace bascule
