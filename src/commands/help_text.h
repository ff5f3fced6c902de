// SPDX-License-Identifier: Apache-2.0
// How help looks: lines of at most 80 columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bascule {

constexpr std::size_t kHelpColumns = 80;

// Breaks long lines between words. Continuation lines are indented to the last column of the line: the one after two
// spaces or more.
std::string wrapped(std::string_view text);

}  // namespace bascule
