// SPDX-License-Identifier: Apache-2.0
#include "src/machine/disk.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "src/machine/fact_files.h"

namespace bascule {
namespace {

// "29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard": the mount of the device that the folder is on.
void read_mount(const std::string& folder, const std::string& root, DiskFacts* facts) {
  struct stat at = {};
  if (::stat(folder.c_str(), &at) != 0) return;
  const std::string device = std::to_string(major(at.st_dev)) + ":" + std::to_string(minor(at.st_dev));
  for (const std::string& line : lines_of(whole_text(root + "/proc/self/mountinfo"))) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = words_of(line.substr(0, dash)), behind = words_of(line.substr(dash + 3));
    if (before.size() < 6 || behind.size() < 2 || before[2] != device) continue;
    facts->type = behind[0];
    facts->device = behind[1];
    facts->options = before[5];
    return;
  }
}

}  // namespace

DiskFacts read_disk(const std::string& folder, const std::string& root) {
  DiskFacts facts;
  read_mount(folder, root, &facts);
  struct statvfs space = {};
  if (::statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) return facts;
  const auto bytes = [&](fsblkcnt_t blocks) {
    return static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(space.f_frsize);
  };
  facts.bytes = bytes(space.f_blocks);
  facts.free_bytes = bytes(space.f_bavail);
  return facts;
}

}  // namespace bascule
