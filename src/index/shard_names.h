// SPDX-License-Identifier: Apache-2.0
// "shard-{000..127}.tar": the names of tar shards that a setting stands for. Before the seal.
#pragma once

#include <string>
#include <vector>

namespace bascule {

// {a..b} counts (with leading zeros where a bound has them), {a,b} lists, both nest and may come several times; commas
// outside of braces separate names. In order, the first braces slowest. Throws Error (kSettings) for braces that do not
// fit, ranges that count down, an empty name, a name twice, more than 100,000 names.
std::vector<std::string> expand_shards(const std::string& path);

}  // namespace bascule
