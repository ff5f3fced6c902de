// SPDX-License-Identifier: Apache-2.0
// Names and the state file, shared by writing and finding checkpoints.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/files/durable_write.h"
#include "src/json/value.h"

namespace bascule {

// The names within an output folder that writing and finding checkpoints share.

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

}  // namespace bascule
