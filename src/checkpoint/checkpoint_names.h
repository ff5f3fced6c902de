// SPDX-License-Identifier: Apache-2.0
// The names within an output folder that writing and finding checkpoints share.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/files/durable_write.h"

namespace bascule {

constexpr std::string_view kCheckpointPrefix = "checkpoint-";
constexpr const char* kTrainingStateFile = "training_state.safetensors";
constexpr const char* kStateFile = "bascule_state.json";  // what makes a checkpoint ours, see state_file.h
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

}  // namespace bascule
