// SPDX-License-Identifier: Apache-2.0
// Paths of the settings: as absolute ones, and those that only a shell would expand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/readable.h"
#include "src/settings/settings.h"

namespace bascule {

// Paths of the settings as absolute ones, for whoever reads them from another folder. Before the seal.

// A path, a pattern or a list of shards as absolute paths, from the folder that relative ones start from: each of
// "a.tar,b.tar" is a path of its own, and an empty one stays empty.
std::string absolute_data_path(const PathsSetting& paths, const std::string& written);

// Why it has no such form, and what to do: {"", ""} where it has one. The name of the folder would be read as part of
// the pattern, or braces hold an absolute path.
struct PathProblem {
  std::string what, what_to_do;
};
PathProblem data_path_problem(const PathsSetting& paths, const std::string& written);

// All paths absolute, but for data that has no such form.
Settings with_absolute_paths(Settings settings);

// {"data.train_file", "\"/data/rows.jsonl\""}: the keys whose value is another if its paths are absolute, with that
// canonical value.
std::vector<NamedText> absolute_path_values(const Settings& settings);

// Detects paths that only a shell would expand: Bascule does not expand `~` and `$NAME`, and would make folders of that
// name. Before the seal.

// The part of a path that a shell would replace: "~" or "~name" in front, "$NAME" or "${NAME}" anywhere; empty: none. A
// file whose name does begin with "~" can be written "./~name".
std::string_view unexpanded_part(std::string_view path);

// The problem of a path that has such a part, for messages: "\"~\" is not expanded ..."; empty: none.
std::string unexpanded_problem(std::string_view path);

}  // namespace bascule
