// SPDX-License-Identifier: Apache-2.0
// The range of every key, taken from the table of keys: both bounds are read, what lies beyond them is refused by name.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "src/settings/keys.h"
#include "tests/settings/read_text.h"

namespace bascule {
namespace {

struct Values {
  std::vector<std::string> allowed, refused;
};

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", value);
  const std::string digits = text;
  return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;
}

Values values_of(const IntegerKey& key) {
  Values values{{std::to_string(key.min), std::to_string(key.max)}, {}};
  if (key.min > std::numeric_limits<std::int64_t>::min()) values.refused.push_back(std::to_string(key.min - 1));
  if (key.max < std::numeric_limits<std::int64_t>::max()) values.refused.push_back(std::to_string(key.max + 1));
  return values;
}

Values values_of(const RealKey& key) {
  const double infinity = std::numeric_limits<double>::infinity();
  Values values{{number(std::nextafter(key.min, infinity)), number(std::nextafter(key.max, -infinity))},
                {number(std::nextafter(key.min, -infinity)), number(std::nextafter(key.max, infinity)), "nan", "inf"}};
  (key.min_is_allowed ? values.allowed : values.refused).push_back(number(key.min));
  (key.max_is_allowed ? values.allowed : values.refused).push_back(number(key.max));
  return values;
}

Values values_of(const RangeKey& key) {
  const auto list = [](double least, double most) { return "[" + number(least) + ", " + number(most) + "]"; };
  const double below = std::nextafter(key.min, -1.0), beyond = std::nextafter(key.max, 2.0 * key.max);
  return {{list(key.min, key.max), list(key.max, key.max)},
          {list(below, key.max), list(key.min, beyond), list(key.max, key.min), "[]", "[" + number(key.max) + "]",
           "[nan, nan]", number(key.max), "[\"a\", \"b\"]"}};
}

Values values_of(const ChoiceKey& key) {
  Values values{{}, {"\"\"", "\"none of these\""}};
  for (int i = 0; i < key.count; ++i) values.allowed.push_back("\"" + std::string(key.names[i]) + "\"");
  return values;
}

Values values_of(const TextKey& key) {
  Values values{{"\"word\""}, {}};
  (key.may_be_empty ? values.allowed : values.refused).push_back("\"\"");
  return values;
}

Values values_of(const BoolKey&) { return {{"true", "false"}, {"1", "\"true\""}}; }

template <typename Other>
Values values_of(const Other&) {
  return {};
}

TEST(Ranges, OfEveryKeyAreReadAtTheirBoundsAndRefusedByNameBeyond) {
  int refused = 0;
  for (const Key& key : all_keys()) {
    if (is_required(key)) continue;
    const Values values = std::visit([](const auto& kind) { return values_of(kind); }, key.kind);
    const auto line_of = [&](const std::string& value) {
      return refusal_of(least_with(key.table, std::string(key.name) + " = " + value));
    };
    for (const std::string& value : values.allowed) {
      EXPECT_EQ(line_of(value).find(allowed_values(key, test_words())), std::string::npos)
          << qualified_name(key) << " = " << value;
    }
    for (const std::string& value : values.refused) {
      const std::string line = line_of(value);
      EXPECT_NE(line.find(qualified_name(key)), std::string::npos) << value << ": " << line;
      EXPECT_NE(line.find(allowed_values(key, test_words())), std::string::npos) << value << ": " << line;
      ++refused;
    }
  }
  EXPECT_GT(refused, 150);
}

// Bounds that follow from what a key is, and not from the table of keys.
TEST(Ranges, EndWhereAKeyWouldLoseItsMeaning) {
  const struct {
    const char *table, *key;
    std::vector<std::string> allowed, refused;
  } kBounds[] = {
      // A text has its first and its last token, and positions of 16 bits.
      {"data", "max_seq_length", {"2", "65536"}, {"0", "1", "65537"}},
      {"data", "max_source_length", {"2", "65408"}, {"0", "1", "65537"}},
      {"data", "max_target_length", {"2", "64512"}, {"0", "1", "65537"}},
      {"data", "val_max_target_length", {"0", "64512"}, {"-1", "65537"}},
      // Bias correction divides by 1 - beta^t.
      {"training", "adam_beta1", {"0.0", "0.9999999"}, {"1.0", "-0.1"}},
      {"training", "adam_beta2", {"0.0", "0.9999999"}, {"1.0", "-0.1"}},
  };
  for (const auto& one : kBounds) {
    const std::string name = one.key;
    for (const std::string& value : one.allowed)
      EXPECT_EQ(refusal_of(least_with(one.table, name + " = " + value)), "") << name << " = " << value;
    for (const std::string& value : one.refused) {
      EXPECT_NE(refusal_of(least_with(one.table, name + " = " + value)).find(std::string(one.table) + "." + name),
                std::string::npos)
          << name << " = " << value;
    }
  }
}

}  // namespace
}  // namespace bascule
