// SPDX-License-Identifier: Apache-2.0
// `bascule list DIR`: a table of the runs below folders.
#pragma once

#include <string>
#include <vector>

namespace bascule {

struct ListArguments {
  std::vector<std::string> folders;
  std::string html;  // a page to write; empty: none
  bool json = false;
};

// Returns the exit code. Throws Error.
int list_command(const ListArguments& arguments);

}  // namespace bascule
