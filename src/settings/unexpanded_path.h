// SPDX-License-Identifier: Apache-2.0
// Detects paths that only a shell would expand: Bascule does not expand `~` and `$NAME`, and would make folders of that
// name. Before the seal.
#pragma once

#include <string>
#include <string_view>

namespace bascule {

// The part of a path that a shell would replace: "~" or "~name" in front, "$NAME" or "${NAME}" anywhere; empty: none. A
// file whose name does begin with "~" can be written "./~name".
std::string_view unexpanded_part(std::string_view path);

// The problem of a path that has such a part, for messages: "\"~\" is not expanded ..."; empty: none.
std::string unexpanded_problem(std::string_view path);

}  // namespace bascule
