// SPDX-License-Identifier: Apache-2.0
// "a-{0,1}.tar,b.tar": a setting that lists tar shards, and the parts of the list. What each part stands for:
// src/index/shard_names.h. Before the seal.
#pragma once

#include <string_view>
#include <vector>

namespace bascule {

// Whether a path means shards: it ends with .tar.
bool names_shards(std::string_view path);

// Cut at commas outside of braces, which stay. Views into `text`.
std::vector<std::string_view> list_parts(std::string_view text);

}  // namespace bascule
