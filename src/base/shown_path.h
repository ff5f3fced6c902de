// SPDX-License-Identifier: Apache-2.0
// Paths in messages, seen from where the user stands. Not for use after the seal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bascule {

// `path`, or a text that begins with one ("/a/train.jsonl:17"): an absolute path becomes relative to the current folder
// where that makes it shorter; everything else stays as it is.
std::string shown_path(std::string_view path);

// "a.jsonl, b.csv": the first three of a list, and how many follow.
std::string shown_list(const std::vector<std::string>& names);

}  // namespace bascule
