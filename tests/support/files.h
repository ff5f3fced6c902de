// SPDX-License-Identifier: Apache-2.0
// The content of a file, and the line of an error.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

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

// `action` throws an Error of this kind, whose line has `part`.
inline testing::AssertionResult fails(const std::function<void()>& action, std::string_view part = "",
                                      ErrorKind kind = ErrorKind::kData) {
  try {
    action();
  } catch (const Error& error) {
    const bool is_asked = error.kind() == kind && std::string_view(error.what()).find(part) != std::string_view::npos;
    return testing::AssertionResult(is_asked) << error.what() << ", with exit code " << exit_code(error.kind())
                                              << "; expected: \"" << part << "\", with exit code " << exit_code(kind);
  }
  return testing::AssertionFailure() << "no error; expected: \"" << part << "\", with exit code " << exit_code(kind);
}

}  // namespace bascule::test
