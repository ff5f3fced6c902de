// SPDX-License-Identifier: Apache-2.0
// The checkpoints of an output folder: whose it is, which one a run resumes from, which ones stay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/checkpoint.h"
#include "src/files/durable_write.h"

namespace bascule {

// Finds the checkpoint that a run resumes from. Before the seal; nothing is changed on the disk.

// training.resume, but for "never".
struct ResumeChoice {
  bool may_be_older = false;  // an older checkpoint will do where the newest cannot be used
  // A checkpoint to begin from, of this run or of another; "" for none. Where the newest checkpoint of the output
  // folder began there itself, the run goes on from that one: the same command goes on, however often it is stopped.
  std::string begin_from;
};

// How closely a checkpoint is looked at: its state, sizes and headers; or every byte too, by its checksum.
enum class CheckpointCheck { kHeaders, kContents };

// The steps of our checkpoints in a folder, newest first. Error{kSettings} for anything else that has the name of one,
// Error{kData} if that was one of ours but has lost its state.
std::vector<std::int64_t> checkpoint_steps(const std::string& output_dir);

// Whether the choice names a checkpoint to begin from and the newest one of the folder did not begin there.
bool begins_again(const std::string& output_dir, const ResumeChoice& choice);

// Nothing if there is none. Error{kData} if the checkpoint to go on from cannot be used: which file, why, and what
// would be lost by going on from an older one. `notes`, a line each: what is lost, or given up, by going on from the
// one found.
std::optional<ResumePoint> find_checkpoint(const std::string& output_dir, const ResumeChoice& choice,
                                           CheckpointCheck check, std::vector<std::string>* notes);

// Whether output_dir holds the checkpoint of a step. Reads nothing of it.
bool has_checkpoint(const std::string& output_dir, std::int64_t step);

// Which checkpoints of a run stay: as many as save_total_limit says, the newest and the best among them. After the seal
// too: allocates nothing.

class CheckpointRotation {
 public:
  // limit: 0 for all. keeps_later: checkpoints of later steps than the newest could not be read and stay until this run
  // replaces them; else they belong to a run that was given up, and go.
  CheckpointRotation(std::string output_dir, std::int64_t limit, bool keeps_later = false)
      : output_dir_(std::move(output_dir)), limit_(limit), keeps_later_(keeps_later) {}

  // After one was saved. best: the step of the best one, or -1.
  Status remove_old(std::int64_t newest, std::int64_t best) noexcept {
    return remove(newest, best, limit_, keeps_later_);
  }
  // All but this one.
  Status keep_only(std::int64_t step) noexcept { return remove(step, step, 1, false); }

  // After a failure: the folder that could not be removed.
  const PathBuffer& failed_path() const noexcept { return failed_path_; }

 private:
  Status remove(std::int64_t newest, std::int64_t best, std::int64_t limit, bool keeps_later) noexcept;

  std::string output_dir_;
  std::int64_t limit_;
  bool keeps_later_;
  PathBuffer failed_path_;
};

// Tells whether an output folder belongs to Bascule. Before the seal; nothing is changed on the disk.

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
