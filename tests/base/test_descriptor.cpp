// SPDX-License-Identifier: Apache-2.0
#include "src/base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace bascule {
namespace {

int new_number() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(Descriptor, IsClosedWhenItsOwnerGoes) {
  const int number = new_number();
  {
    const Descriptor owner(number);
    EXPECT_TRUE(owner.is_open());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Descriptor, HasOneOwner) {
  const int number = new_number(), other = new_number();
  Descriptor first(number), second(other);
  second = std::move(first);
  EXPECT_FALSE(is_open(other));
  EXPECT_EQ(second.number(), number);
  Descriptor third(std::move(second));
  EXPECT_EQ(third.release(), number);
  EXPECT_FALSE(third.is_open());
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

}  // namespace
}  // namespace bascule
