// SPDX-License-Identifier: Apache-2.0
// Where the reference data lies: goldens/, images/, tokenizer/, emoji-captions/, under the same names in both places.
// The environment variable BASCULE_REFERENCE_DIR names the full set; without it, tests/data has what a bare clone
// carries. The executable is compiled with `cpp_args: test_args`, which defines BASCULE_TEST_DATA.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace bascule::test {

inline std::string reference_dir() {
  const char* const full = std::getenv("BASCULE_REFERENCE_DIR");
  return full != nullptr && *full != '\0' ? full : BASCULE_TEST_DATA;
}

// The path of a file of the reference set, or an empty string where this set lacks it: the test then skips.
//   const std::string path = reference_file("goldens/itc_medium_bf16/case.json");
//   if (path.empty()) GTEST_SKIP() << "only in the full reference set";
inline std::string reference_file(const std::string& relative) {
  const std::string path = reference_dir() + "/" + relative;
  return std::ifstream(path).good() ? path : std::string();
}

}  // namespace bascule::test
