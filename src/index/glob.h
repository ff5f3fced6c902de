// SPDX-License-Identifier: Apache-2.0
// Names that stand for several files: patterns, and ranges of shards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bascule {

// "data/part-*.jsonl": the files that a pattern of names stands for, as Python's glob without `**` has it. Before the
// seal.
//
// - In every part of the path `*` stands for any characters, `?` for one, `[a-z]` for one of a set, `[!a-z]` for one
//   outside of it; a set may hold `]` as its first character. A `[` without its `]` stands for itself.
// - A part that does not begin with a dot matches no name that does. `/` is matched by itself alone.
// - Matches are sorted by their bytes, so that a folder gives the same files in the same order on every machine.

// Whether a path has a sign of a pattern.
bool has_glob_sign(std::string_view path);

// Whether one part of a path matches one part of a pattern. Characters are those of UTF-8; a byte that is none counts
// as one.
bool matches_glob(std::string_view pattern, std::string_view name);

// The matches of a pattern, sorted; `start` is put before a relative pattern and is taken literally. Throws Error:
// kSettings for `**`, kData for a folder that cannot be read.
std::vector<std::string> expand_glob(const std::string& pattern, const std::string& start = "");

// "shard-{000..127}.tar": the names of tar shards that a setting stands for. Before the seal.

// {a..b} counts (with leading zeros where a bound has them), {a,b} lists, both nest and may come several times; commas
// outside of braces separate names. In order, the first braces slowest. Throws Error (kSettings) for braces that do not
// fit, ranges that count down, an empty name, a name twice, more than 100,000 names.
std::vector<std::string> expand_shards(const std::string& path);

}  // namespace bascule
