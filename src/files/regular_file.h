// SPDX-License-Identifier: Apache-2.0
// Opening what is to be a regular file. A pipe or device that stands in its place is refused, not waited for.
#pragma once

#include <cerrno>
#include <string>

namespace bascule {

// The error of open_regular_file() for anything that is neither a regular file nor a folder.
constexpr int kNotAFile = EINVAL;

// For reading; relative paths start from `folder`, a descriptor or AT_FDCWD. A descriptor, or -errno: -EISDIR for a
// folder, -kNotAFile. Allocates nothing.
int open_regular_file(int folder, const char* path) noexcept;

// For messages: "is not a file", "cannot be read: Permission denied". Allocates.
std::string file_problem(int reason);

}  // namespace bascule
