// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run, `output_dir/checkpoint-N/`: a Hugging Face folder with, beside the weights,
//   training_state.safetensors  exp_avg.NAME and exp_avg_sq.NAME by Hugging Face name: free of strategy and world size
//   bascule_state.json          position, settings that change numbers, digests of the data, bad-sample replacements,
//   sizes of all other files and text files of the caller's (trainer_state.json).
// A checkpoint is written as checkpoint-N.tmp and renamed when all of it is on disk; only then are old ones removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/checkpoint/durable_write.h"
#include "src/checkpoint/hf_write.h"
#include "src/checkpoint/safetensors.h"

namespace bascule {

// A setting that changes numbers, in canonical text: {"training.learning_rate", "1e-05"}.
struct SettingValue {
  std::string key;
  std::string value;
};

// The sample at `position` of epoch `epoch` shows the picture of `bad_row`, which is bad; `row` was taken in its place.
struct Replacement {
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  std::int64_t row = 0;
  std::int64_t bad_row = 0;
  std::int64_t reason = 0;  // the loader's
};

// A figure that the run carries on (sum of losses, tokens seen, ...). Doubles come back bit for bit.
struct NamedNumber {
  const char* name = "";
  double value = 0.0;
};

// What is true at the moment of a save; everything is borrowed.
struct CheckpointMoment {
  std::int64_t global_step = 0;
  std::int64_t samples_seen = 0;  // the position, from the first epoch's first sample on
  double epoch = 0.0;
  Span<const NamedNumber> numbers;
  Span<const Replacement> replacements;
  Span<const std::string_view> texts;  // the contents of CheckpointContents::text_files, in their order
};

struct CheckpointContents {
  std::string output_dir;             // exists
  std::int64_t save_total_limit = 0;  // newest ones kept; 0: all
  HfFolderContents model;
  std::vector<TensorToWrite> optimizer;  // see exp_avg_name()
  std::string settings_digest;
  std::vector<SettingValue> settings;
  std::vector<SettingValue> data;        // the digest of each file of data, by the key that names it
  std::vector<std::string> text_files;   // names, e.g. "trainer_state.json"
  std::int64_t max_replacements = 1000;  // more than these in a run: kDiskFailed with EOVERFLOW
  std::int64_t max_numbers = 64;
};

inline std::string exp_avg_name(const std::string& name) { return "exp_avg." + name; }
inline std::string exp_avg_sq_name(const std::string& name) { return "exp_avg_sq." + name; }

// Made before the seal, with all its memory; used after it.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointContents contents);

  // output_dir/checkpoint-<global_step>, whole or not at all: on failure what was written is removed again and older
  // checkpoints stand. Replaces a checkpoint of the same step.
  Status save(const CheckpointMoment& moment, WriteProgress progress = {}) noexcept;

  // After a failed save: the file or folder at fault, for the one line.
  const char* failed_path() const noexcept { return failed_path_.c_str(); }
  // Bytes that one checkpoint takes, without the texts.
  std::int64_t checkpoint_bytes() const;

 private:
  Status write_files(const CheckpointMoment& moment, PathBuffer& path, WriteProgress progress) noexcept;
  Status write_state(const CheckpointMoment& moment, const char* path) noexcept;
  Status remove_old(std::int64_t newest) noexcept;

  std::string output_dir_;
  std::int64_t save_total_limit_;
  HfFolderPlan model_;
  SafetensorsWritePlan optimizer_;
  std::vector<std::string> text_files_;
  std::string fixed_state_;  // the part of bascule_state.json that never changes
  std::vector<char> state_;  // bascule_state.json is put together here
  PathBuffer failed_path_;
};

// --- Finding and reading, before the seal ---

struct ResumePoint {
  std::string folder;  // output_dir/checkpoint-N
  std::int64_t global_step = 0;
  std::int64_t samples_seen = 0;
  double epoch = 0.0;
  std::string settings_digest;
  std::vector<SettingValue> settings;
  std::vector<SettingValue> data;  // empty in checkpoints of before it was kept
  std::vector<Replacement> replacements;
  std::vector<std::pair<std::string, double>> numbers;

  double number(const std::string& name) const;  // Error{kData} if the checkpoint has none of that name
};

// The newest checkpoint that is whole: state readable, every listed file there with its size, safetensors headers
// sound. For each newer one that is not, a line is added to `notes`. Removes leftovers of killed saves first. Absent
// output_dir: none.
std::optional<ResumePoint> find_newest_checkpoint(const std::string& output_dir, std::vector<std::string>* notes);

// Error{kSettings} naming the first key that differs, with both values.
void check_same_settings(const ResumePoint& point, const std::vector<SettingValue>& now);

// Error{kData} naming the first file of data that is not what it was.
void check_same_data(const ResumePoint& point, const std::vector<SettingValue>& now);

// The optimizer's tensors of a checkpoint.
TensorSource open_training_state(const ResumePoint& point);

// A folder of the run's launcher in output_dir while ranks are at work; what a killed one left is its own to remove.
inline constexpr char kLauncherFolder[] = ".launcher";

enum class OutputDir {
  kFree,   // absent or empty, but for leftovers of ours
  kOurs,   // holds checkpoints of ours or the marker file bascule.json
  kOther,  // holds something else: not to be written into
};
OutputDir classify_output_dir(const std::string& output_dir);

}  // namespace bascule
