// SPDX-License-Identifier: Apache-2.0
// Tells whether an output folder belongs to Bascule. Before the seal; nothing is changed on the disk.
#pragma once

#include <cstdint>
#include <string>

namespace bascule {

// Marks a folder as ours: a JSON file that the run writes before anything else. A file without a format number has
// format 1.
inline constexpr char kRunMarkerFile[] = "bascule.json";
inline constexpr std::int64_t kRunMarkerFormat = 1;

// A folder of the run's launcher in output_dir while ranks are at work; what a killed one left is its own to remove.
inline constexpr char kLauncherFolder[] = ".bascule-launcher";

enum class OutputDirKind {
  kFree,   // absent or empty, but for lost+found and names that begin with a dot
  kOurs,   // holds the marker, or checkpoints of ours
  kOther,  // contains other files, or is not a folder: not to be written into
};

struct OutputDir {
  OutputDirKind kind = OutputDirKind::kFree;
  std::string problem;  // of kOther: "contains other files (thesis.tex)"
};

// Error{kData} if the marker is ours but cannot be read or has a newer format.
OutputDir classify_output_dir(const std::string& output_dir);

}  // namespace bascule
