// SPDX-License-Identifier: Apache-2.0
#include "src/seal/disk_space.h"

#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/logs/readable.h"
#include "src/machine/disk.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

// The bytes that become free when a folder is removed with all it holds.
std::int64_t bytes_below(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    bytes += file_bytes_at(at->path().string());
  return bytes;
}

}  // namespace

DiskNeed disk_need(const DiskDemand& demand) {
  DiskNeed need;
  std::deque<std::int64_t> there(demand.present_checkpoints.begin(), demand.present_checkpoints.end());
  double held = 0.0;
  const auto hold = [&](double bytes) {
    held += bytes;
    need.bytes = std::max(need.bytes, held);
  };
  std::int64_t saves = demand.saves;
  if (demand.save_total_limit == 0) {
    hold(static_cast<double>(saves) * static_cast<double>(demand.checkpoint_bytes));
    need.checkpoints = static_cast<std::int64_t>(there.size()) + saves;
    saves = 0;
  }
  // After so many nothing but new ones is there, and each takes the place of one.
  saves = std::min(saves, static_cast<std::int64_t>(there.size()) + demand.save_total_limit + 1);
  for (; saves > 0; --saves) {
    hold(static_cast<double>(demand.checkpoint_bytes));
    there.push_back(demand.checkpoint_bytes);
    need.checkpoints = std::max(need.checkpoints, static_cast<std::int64_t>(there.size()));
    for (; static_cast<std::int64_t>(there.size()) > demand.save_total_limit; there.pop_front())
      held -= static_cast<double>(there.front());
  }
  for (const DiskFile& file : demand.final_files) {
    hold(static_cast<double>(file.bytes));
    held -= static_cast<double>(file.replaced_bytes);
  }
  return need;
}

std::vector<std::int64_t> checkpoint_bytes_in(const std::string& output_dir) {
  std::map<std::int64_t, std::int64_t> bytes_by_step;
  std::error_code failed;
  for (fs::directory_iterator at(output_dir, failed), end; !failed && at != end; at.increment(failed)) {
    if (const std::optional<std::int64_t> step = checkpoint_step(at->path().filename().string()))
      bytes_by_step[*step] = bytes_below(at->path());
  }
  std::vector<std::int64_t> bytes;
  bytes.reserve(bytes_by_step.size());
  for (const auto& one : bytes_by_step) bytes.push_back(one.second);
  return bytes;
}

std::int64_t file_bytes_at(const std::string& path) {
  struct stat facts = {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) ? facts.st_blocks * 512 : 0;
}

void check_disk_space(const std::string& output_dir, const DiskDemand& demand) {
  const Fact available = read_disk(output_dir).free_bytes;
  if (!available) return;
  const double free = static_cast<double>(*available);
  const DiskNeed need = disk_need(demand);
  if (need.bytes <= free) return;
  const auto readable = [](double bytes) {
    return std::string(readable_bytes(static_cast<std::uint64_t>(std::min(bytes, 1e18))).c_str());
  };
  std::string what = demand.has_model ? "the finished model" : "the results";
  if (need.checkpoints > 0)
    what = count_of(need.checkpoints, "checkpoint") + " of " + readable(static_cast<double>(demand.checkpoint_bytes)) +
           " at a time plus " + what + ",";
  const bool is_one = need.checkpoints == 0 && demand.has_model;
  throw Error(ErrorKind::kDisk, output_dir,
              what + (is_one ? " needs " : " need ") + readable(need.bytes) + " of disk space, " + readable(free) +
                  " are available",
              need.checkpoints > 2 ? "free space, or lower training.save_total_limit"
                                   : "free space, or choose another training.output_dir");
}

}  // namespace bascule
