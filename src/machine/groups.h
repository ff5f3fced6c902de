// SPDX-License-Identifier: Apache-2.0
// The control groups above this process, of both versions: where their folders are. For src/machine alone.
#pragma once

#include <string>
#include <vector>

namespace bascule {

struct GroupFolder {
  std::string folder;  // without the root
  bool is_version_2 = false;
  std::string controllers;  // of the hierarchy, version 1: "cpu,cpuacct"; "" for version 2, where a folder may have any

  bool has(const std::string& controller) const;
};

// Every hierarchy that is mounted, from this process's group upwards as far as it is mounted here.
std::vector<GroupFolder> group_folders(const std::string& root);

}  // namespace bascule
