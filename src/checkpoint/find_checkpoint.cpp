// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/base/error.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/checkpoint/durable_write.h"

namespace bascule {

std::optional<ResumePoint> find_newest_checkpoint(const std::string& output_dir, std::vector<std::string>* notes) {
  remove_leftovers(output_dir);
  std::vector<std::pair<std::int64_t, std::string>> candidates;
  for (const std::string& name : folder_entries(output_dir)) {
    if (const std::optional<std::int64_t> step = checkpoint_step(name)) candidates.emplace_back(*step, name);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  for (const auto& [step, name] : candidates) {
    try {
      return read_checkpoint(output_dir + "/" + name, step);
    } catch (const Error& error) {
      notes->push_back(name + " is not whole and is passed over: " + error.what());
    }
  }
  return std::nullopt;
}

bool has_checkpoint(const std::string& output_dir, std::int64_t step) {
  std::error_code ignored;
  return std::filesystem::exists(
      output_dir + "/" + std::string(kCheckpointPrefix) + std::to_string(step) + "/" + kStateFile, ignored);
}

}  // namespace bascule
