// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"

#include <cstdio>

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(CheckDeathTest, AFailedOneEndsTheProgramWithOneLine) {
  EXPECT_EXIT(BASCULE_CHECK(1 + 1 == 3), ::testing::ExitedWithCode(1),
              "^bascule: bug: .*test_check.cpp:[0-9]+: check failed: 1 \\+ 1 == 3; please report this line\n$");
}

void fail_again(const char* what) {
  std::fprintf(stderr, "last words: %.10s\n", what);
  check_failed("b.cpp", 2, "second");
}

TEST(CheckDeathTest, LastWordsThatFailAreNotSaidAgain) {
  const auto fail = [] {
    set_last_words(fail_again);
    check_failed("a.cpp", 1, "first");
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(1),
              "^bascule: [^\n]*first[^\n]*\nlast words: bug: a.cpp\nbascule: [^\n]*second[^\n]*\n$");
}

}  // namespace
}  // namespace bascule
