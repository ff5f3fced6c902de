// SPDX-License-Identifier: Apache-2.0
#include "src/base/readable.h"

#include <limits>

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace bascule {
namespace {

TEST(Readable, BytesKeepThreeDigitsAndTheRightUnit) {
  EXPECT_STREQ(readable_bytes(0).c_str(), "0 B");
  EXPECT_STREQ(readable_bytes(1023).c_str(), "1023 B");
  EXPECT_STREQ(readable_bytes(1536).c_str(), "1.50 KiB");
  EXPECT_STREQ(readable_bytes(10236).c_str(), "10.0 KiB");  // 9.996
  EXPECT_STREQ(readable_bytes(102348).c_str(), "99.9 KiB");
  EXPECT_STREQ(readable_bytes(102350).c_str(), "100 KiB");  // 99.951
  EXPECT_STREQ(readable_bytes(600ull << 20).c_str(), "600 MiB");
  EXPECT_STREQ(readable_bytes((1ull << 30) - 1).c_str(), "1.00 GiB");
  EXPECT_STREQ(readable_bytes(std::numeric_limits<std::uint64_t>::max()).c_str(), "16.0 EiB");
}

TEST(Readable, ListsOfWords) {
  EXPECT_EQ(and_list({"a"}), "a");
  EXPECT_EQ(and_list({"a", "b"}), "a and b");
  EXPECT_EQ(or_list({"a", "b", "c"}), "a, b or c");
}

TEST(Readable, SecondsChooseTheirUnitAndNeverShowSixty) {
  EXPECT_STREQ(readable_seconds(0.0123).c_str(), "12.3 ms");
  EXPECT_STREQ(readable_seconds(0.0).c_str(), "0 s");
  EXPECT_STREQ(readable_seconds(0.23).c_str(), "230 ms");
  EXPECT_STREQ(readable_seconds(3.456).c_str(), "3.46 s");
  EXPECT_STREQ(readable_seconds(59.96).c_str(), "1 min 00 s");
  EXPECT_STREQ(readable_seconds(3599.6).c_str(), "1 h 00 min");
  EXPECT_STREQ(readable_seconds(3725.0).c_str(), "1 h 02 min");
  EXPECT_STREQ(readable_seconds(86369.0).c_str(), "23 h 59 min");
  EXPECT_STREQ(readable_seconds(86371.0).c_str(), "1 d 00 h");
  EXPECT_STREQ(readable_seconds(90000.0).c_str(), "1 d 01 h");
  EXPECT_STREQ(readable_seconds(std::numeric_limits<double>::quiet_NaN()).c_str(), "n/a");
  EXPECT_STREQ(readable_seconds(-1.0).c_str(), "n/a");
}

TEST(Readable, CountsAreGroupedInThrees) {
  EXPECT_STREQ(readable_count(7).c_str(), "7");
  EXPECT_STREQ(readable_count(999).c_str(), "999");
  EXPECT_STREQ(readable_count(1234567).c_str(), "1,234,567");
  EXPECT_STREQ(readable_count(-123456).c_str(), "-123,456");
  EXPECT_STREQ(readable_count(std::numeric_limits<std::int64_t>::min()).c_str(), "-9,223,372,036,854,775,808");
}

TEST(Readable, NumbersShowAboutFourDigitsAtAnySize) {
  EXPECT_STREQ(readable_number(0.0).c_str(), "0");
  EXPECT_STREQ(readable_number(0.42134).c_str(), "0.4213");
  EXPECT_STREQ(readable_number(12.345).c_str(), "12.35");
  EXPECT_STREQ(readable_number(-138.94).c_str(), "-138.9");
  EXPECT_STREQ(readable_number(999.94).c_str(), "999.9");
  EXPECT_STREQ(readable_number(999.96).c_str(), "1,000.0");
  EXPECT_STREQ(readable_number(-1234.54).c_str(), "-1,234.5");
  EXPECT_STREQ(readable_number(123456.7).c_str(), "123,457");
  EXPECT_STREQ(readable_number(0.00001234).c_str(), "1.234e-05");
  EXPECT_STREQ(readable_number(1.5e13).c_str(), "1.500e+13");
  EXPECT_STREQ(readable_number(std::numeric_limits<double>::infinity()).c_str(), "n/a");
}

TEST(Readable, PercentOfWhatIsNotFiniteIsNotANumber) {
  EXPECT_STREQ(readable_percent(0.4213).c_str(), "42.1 %");
  EXPECT_STREQ(readable_percent(std::numeric_limits<double>::quiet_NaN()).c_str(), "n/a");
}

TEST(Readable, ARateOfLoadingThatWasNotMeasuredIsNoNumber) {
  EXPECT_STREQ(can_deliver(1234.5).c_str(), "can deliver 1,234.5 samples/s");
  EXPECT_STREQ(can_deliver(std::numeric_limits<double>::quiet_NaN()).c_str(), "loading was not measured");
}

}  // namespace
}  // namespace bascule
