// SPDX-License-Identifier: Apache-2.0
// Checkpoints, and their weights read back into memory.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/batch.h"
#include "src/base/readable.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/checkpoint/hf_write.h"
#include "src/checkpoint/tensor_source.h"
#include "src/files/durable_write.h"
#include "src/json/value.h"

namespace bascule {

constexpr std::string_view kCheckpointPrefix = "checkpoint-";
constexpr const char* kTrainingStateFile = "training_state.safetensors";
constexpr const char* kStateFile = "bascule_state.json";  // what makes a checkpoint ours, see below
// Folder of a finished run whose last state no checkpoint holds: the state without weights and moments.
constexpr const char* kLastStateFolder = "last_state";
// Folder of a finished run with the average of its weights: a Hugging Face folder.
constexpr const char* kAveragedFolder = "ema";

// The step N of a name "checkpoint-N", written as we write it; nothing for any other name. noexcept, allocates nothing.
inline std::optional<std::int64_t> checkpoint_step(std::string_view name) noexcept {
  if (name.substr(0, kCheckpointPrefix.size()) != kCheckpointPrefix) return std::nullopt;
  const std::string_view digits = name.substr(kCheckpointPrefix.size());
  std::int64_t step = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool canonical =
      !digits.empty() && digits[0] >= '0' && digits[0] <= '9' && (digits[0] != '0' || digits.size() == 1);
  const bool sound = canonical && failure == std::errc() && end == digits.data() + digits.size();
  return sound ? std::optional<std::int64_t>(step) : std::nullopt;
}

inline PathBuffer checkpoint_name(std::int64_t step) noexcept {
  PathBuffer name(kCheckpointPrefix);
  name.append(step);
  return name;
}

// bascule_state.json: what writing, finding and reading it share. The file ends with the XXH3 of all its bytes before,
// `, "xxh3": "0123456789abcdef"}` and a line break.

// Format 2, which is still read, has sizes of files alone: no checksum of anything, and no `resumed_from`.
constexpr std::int64_t kOldestStateFormat = 2, kStateFormat = 3;
constexpr std::string_view kStateDigestKey = "xxh3";

// 16 hexadecimal digits. noexcept, allocates nothing.
class DigestText {
 public:
  explicit DigestText(std::uint64_t digest) noexcept;
  std::string_view text() const noexcept { return {digits_, sizeof digits_}; }

 private:
  char digits_[16];
};

// Whether a folder has a state file: then it is a checkpoint of ours. noexcept, allocates nothing.
bool holds_state(const PathBuffer& folder) noexcept;

// --- Before the seal ---

// The document at `path`. Error{kData} if it cannot be read, is damaged, or has a format that this program does not
// know.
Json read_state(const std::string& path);

// Checkpoints of a run, `output_dir/checkpoint-N/`: a Hugging Face folder with, beside the weights,
//   training_state.safetensors  the optimizer's states, STATE.NAME by Hugging Face name, for AdamW exp_avg.NAME and
//                               exp_avg_sq.NAME; ema.NAME: free of strategy and world size
//   bascule_state.json          position, settings, what was changed on the way, digests of the data, bad-sample
//                               replacements, sizes and checksums (XXH3) of all other files, and a checksum of its own
// and text files of the caller's. Here: reading one, before the seal. Writing: checkpoint_writer.h.

// A setting that was changed when a run resumed from the checkpoint of update `step`.
struct HistoryEntry {
  std::int64_t step = 0;
  std::string key;   // "training.max_steps"
  std::string from;  // canonical text
  std::string to;
  std::string time;  // "2026-11-21T14:03:00Z"
};

// The rows of the training data, as src/index/row_digests.h tells them.
struct RowsState {
  std::int64_t count = 0;  // 0 in checkpoints of before they were kept
  std::vector<std::int64_t> blocks;
  std::vector<std::int64_t> taken_out;
  std::vector<std::int64_t> bad;  // three numbers each: row, content, bytes of the picture
};

std::string name_of_checkpoint(std::int64_t step);  // "checkpoint-N"
inline std::string ema_name(const std::string& name) { return "ema." + name; }

// A file of a checkpoint, beside the state.
struct CheckpointFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string digest;  // 16 hexadecimal digits; "" in checkpoints of before it was kept
};

// The state of a run that a checkpoint holds.
struct ResumePoint {
  std::string folder;  // output_dir/checkpoint-N
  // The checkpoint outside of this line of checkpoints that training.resume named as the run's beginning; "" for none.
  std::string resumed_from;
  std::int64_t global_step = 0;
  std::int64_t samples_seen = 0;
  double epoch = 0.0;
  std::string settings_digest;
  std::vector<NamedText> settings;        // that change numbers
  std::vector<NamedText> other_settings;  // all others; empty in checkpoints of before they were kept
  std::vector<NamedText> data;            // empty in checkpoints of before it was kept
  RowsState rows;
  std::vector<HistoryEntry> history;  // of the whole run, in order
  std::vector<ReplacedSample> replacements;
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<CheckpointFile> files;

  double number(const std::string& name) const;  // Error{kData} if the checkpoint has none of that name
  // For numbers that older versions did not write.
  double number_or(const std::string& name, double otherwise) const noexcept;
};

Json history_json(const std::vector<HistoryEntry>& history);
// Member `history` of an object; none where it has none. Throws Error{kData}.
std::vector<HistoryEntry> read_history(const Json& object, const std::string& where);

// Reads the checkpoint in `folder`. Error{kData} unless it is complete: state readable, every listed file there with
// its size, safetensors headers sound. step: of which it must be.
ResumePoint read_checkpoint(const std::string& folder, std::optional<std::int64_t> step = std::nullopt);

// Reads every file of it. Error{kData} for the first that does not have its checksum.
void check_contents(const ResumePoint& point);

// The optimizer's tensors of a checkpoint.
TensorSource open_training_state(const ResumePoint& point);

// Weights of a checkpoint read back into the memory that they were written from, after the seal: where each tensor lies
// in the files is known from the plan by which they were written. Nothing is allocated.

class WeightsReader {
 public:
  // Before the seal. Reads only those tensors of `plan` that lie in `memory`.
  WeightsReader(const HfFolderPlan& plan, Span<float> memory);

  // Fills them from a folder that a plan of the same tensors wrote. kReadFailed {kUnreadable, errno}, errno being 0
  // where the files are others; the memory is then of no use.
  Status read(const char* folder, WriteProgress progress = {}) const noexcept;

  static constexpr std::int64_t kUnreadable = -2;  // no row of a manifest, which other failed reads name here

 private:
  struct Piece {
    std::int64_t offset = 0;  // in the file
    char* to = nullptr;
    std::int64_t bytes = 0;
  };
  struct File {
    std::string name;
    std::string header;  // as it was written
    std::int64_t bytes = 0;
    std::vector<Piece> pieces;
  };

  Status read_file(const File& file, int descriptor, WriteProgress progress) const noexcept;

  std::vector<File> files_;
};

}  // namespace bascule
