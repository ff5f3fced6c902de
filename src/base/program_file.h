// SPDX-License-Identifier: Apache-2.0
// Where this program is, for what is found beside it. Before the seal.
#pragma once

#include <string>
#include <string_view>

namespace bascule {

// The program's file, absolute and without links. Needs no /proc. Throws Error{kInternal}.
std::string program_file();
// The folder above the one that holds the program: where the tree begins that "bin/bascule" belongs to.
std::string tree_of_program();

// `path` behind the folder `start`; ".." does not lead out of it, as it does not lead out of "/". An absolute path
// stays as it is. Without `start`: the relative path that does not lead out.
std::string path_inside(const std::string& start, std::string_view path);

}  // namespace bascule
