// SPDX-License-Identifier: Apache-2.0
// The facts of the file system that holds a folder. Before the seal.
#pragma once

#include <string>

#include "src/machine/machine.h"

namespace bascule {

struct DiskFacts {
  TextFact type, device, options;  // "ext4", "/dev/vda", "rw,relatime"
  Fact bytes, free_bytes;          // free: for this user; unknown where the file system does not say
};

// root: where /proc/self/mountinfo lies, as in read_machine().
DiskFacts read_disk(const std::string& folder, const std::string& root = "");

}  // namespace bascule
