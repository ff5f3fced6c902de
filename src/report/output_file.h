// SPDX-License-Identifier: Apache-2.0
// Writes one finished file: beside its place, synced, renamed, so that a reader never sees half of it. Only a
// regular file is replaced. Not for the sealed phase. Throws Error{kDisk} with the path and the system's reason.
#pragma once

#include <string>

namespace bascule {

void write_output_file(const std::string& path, const std::string& content);

}  // namespace bascule
