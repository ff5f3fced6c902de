// SPDX-License-Identifier: Apache-2.0
// Saving checkpoints (checkpoint.h). Each is written as .tmp-bascule-checkpoint-N and renamed when all of it is on
// disk; only then are old ones removed, and only those that hold a state of ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/checkpoint/hf_write.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/durable_write.h"

namespace bascule {

// A figure that the run carries on (sum of losses, tokens seen, ...). Doubles come back bit for bit.
struct NamedNumber {
  const char* name = "";
  double value = 0.0;
};

// The contents of a save that change with every save; everything is borrowed.
struct CheckpointMoment {
  std::int64_t global_step = 0;
  std::int64_t samples_seen = 0;  // the position, from the first epoch's first sample on
  double epoch = 0.0;
  std::int64_t best_step = -1;  // its checkpoint is kept beside the newest; -1: none is
  Span<const NamedNumber> numbers;
  Span<const ReplacedSample> replacements;
  Span<const std::int64_t> bad_rows;   // as RowsState::bad; at most 3 * CheckpointContents::max_bad_rows numbers
  Span<const std::string_view> texts;  // the contents of CheckpointContents::text_files, in their order
};

struct CheckpointContents {
  std::string output_dir;             // exists
  std::int64_t save_total_limit = 0;  // kept, the newest and the best among them; 0: all
  bool keeps_later = false;           // see CheckpointRotation
  HfFolderContents model;
  std::vector<TensorToWrite> optimizer;  // its states, and the average of the weights
  std::string resumed_from;              // see ResumePoint
  std::string settings_digest;
  std::vector<NamedText> settings;        // that change numbers
  std::vector<NamedText> other_settings;  // all others
  RowsState rows;                         // without `bad`
  std::vector<HistoryEntry> history;
  std::vector<NamedText> data;           // the digest of each file of data, by the key that names it
  std::vector<std::string> text_files;   // names, e.g. "trainer_state.json"
  std::int64_t max_replacements = 1000;  // more than these in a run: kDiskFailed with EOVERFLOW
  std::int64_t max_bad_rows = 0;
  std::int64_t max_numbers = 64;
};

// Made before the seal, with all its memory; used after it.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointContents contents);

  // output_dir/checkpoint-<global_step>, whole or not at all: on failure what was written is removed again and older
  // checkpoints stand. Replaces a checkpoint of the same step; where something that is no checkpoint of ours has its
  // name, the save fails with EEXIST.
  Status save(const CheckpointMoment& moment, WriteProgress progress = {}) noexcept;

  // output_dir/last_state: the state and the texts alone, which read_checkpoint() reads. Replaces one that is there.
  Status save_last_state(const CheckpointMoment& moment) noexcept;

  // Removes all checkpoints but that of `step`.
  Status keep_only(std::int64_t step) noexcept { return rotation_.keep_only(step); }

  // After a failed save: the file or folder at fault, for the one line.
  const char* failed_path() const noexcept { return failed_path_.c_str(); }
  // Bytes that one checkpoint takes, without the texts.
  std::int64_t checkpoint_bytes() const;

 private:
  Status write_files(const CheckpointMoment& moment, PathBuffer& path, WriteProgress progress) noexcept;
  Status write_texts_and_state(const CheckpointMoment& moment, PathBuffer& path, bool has_tensors) noexcept;
  Status write_state(const CheckpointMoment& moment, const char* path, bool has_tensors) noexcept;

  std::string output_dir_;
  CheckpointRotation rotation_;
  HfFolderPlan model_;
  SafetensorsWritePlan optimizer_;
  std::vector<std::string> text_files_;
  std::string fixed_state_;             // the part of bascule_state.json that never changes
  std::vector<std::uint64_t> digests_;  // of the files of the save under way, in the order of the state
  std::vector<char> state_;             // bascule_state.json is put together here
  PathBuffer failed_path_;
};

}  // namespace bascule
