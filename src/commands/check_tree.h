// SPDX-License-Identifier: Apache-2.0
// Whether the files beside a program with sealed settings are those that it was shipped with. Before the seal.
#pragma once

#include <string>

namespace bascule {

// Reads SHA256SUMS of the folder (as sha256sum writes it) and every file that it lists; nothing if there is none.
// Throws Error kNotAsRecorded for the first file that differs or is missing, kData for a list of another form.
void check_tree(const std::string& folder);

}  // namespace bascule
