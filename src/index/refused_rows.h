// SPDX-License-Identifier: Apache-2.0
// Rows that a manifest refuses, for those that look at data which a run would not take: they are left out, and kept
// here. Allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/error.h"

namespace bascule {

struct RefusedRows {
  static constexpr std::size_t kMostErrors = 6;

  void add(const Error& error) {
    if (errors.size() < most) errors.push_back(error);
    ++count;
  }

  std::size_t most = kMostErrors;  // that are kept
  std::int64_t count = 0;
  std::vector<Error> errors;  // of the first ones
};

}  // namespace bascule
