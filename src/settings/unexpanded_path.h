// SPDX-License-Identifier: Apache-2.0
// Paths that only a shell would understand: `~` and `$NAME` are replaced by nobody here, and would make folders of that
// name. Before the seal.
#pragma once

#include <string>
#include <string_view>

namespace bascule {

// The part of a path that a shell would replace: "~" or "~name" in front, "$NAME" or "${NAME}" anywhere; empty: none. A
// file whose name does begin with "~" can be written "./~name".
std::string_view unexpanded_part(std::string_view path);

// What is wrong with a path that has such a part, for messages: "\"~\" is not replaced ..."; empty: nothing.
std::string unexpanded_problem(std::string_view path);

}  // namespace bascule
