// SPDX-License-Identifier: Apache-2.0
// SHA-256 of whole files. Before the seal or after the last step.
#pragma once

#include <string>

namespace bascule {

// 64 hexadecimal digits. Throws Error{kData} where it is no file that can be read.
std::string sha256_of_file(const std::string& path);

}  // namespace bascule
