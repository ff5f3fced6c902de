// SPDX-License-Identifier: Apache-2.0
// The content of a file, and the line of an error.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "src/base/error.h"

namespace bascule::test {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The line of the Error that `action` throws, whose kind must be `kind`.
inline std::string error_of(const std::function<void()>& action, ErrorKind kind = ErrorKind::kData) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace bascule::test
