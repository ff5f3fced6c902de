// SPDX-License-Identifier: Apache-2.0
// Data sets that are not read here: Parquet and Arrow files, what `save_to_disk` wrote, and names of the hub.
#pragma once

#include <string>

namespace bascule {

// Throws Error kData, which names the tool that converts it, where the path of a split is a data set of these forms or
// missing.
void refuse_foreign_data(const std::string& path);

}  // namespace bascule
