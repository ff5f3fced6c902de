// SPDX-License-Identifier: Apache-2.0
// Small text files of /proc and /sys, read as facts: what is missing or makes no sense is unknown. For src/machine
// alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/machine/machine.h"

namespace bascule {

// The first line without spaces at its end; unknown also if it is empty.
TextFact text_in(const std::string& path);
// The whole file; "" if it cannot be read.
std::string whole_text(const std::string& path);
std::vector<std::string> lines_of(const std::string& text);
// Words between spaces and tabs.
std::vector<std::string> words_of(std::string_view text);
// The line that begins with the key, without the key and the colon or spaces behind it.
TextFact value_of(const std::string& text, std::string_view key);

// A number that the text begins with, not negative: "12 kB" is 12, "max" and "-1" are unknown.
Fact number_of(const TextFact& text);
Fact number_in(const std::string& path);
// "max" or "unlimited" is kUnlimited.
Fact limit_of(const TextFact& text);
// Unknown stays unknown.
Fact times(const Fact& fact, std::int64_t factor);
Fact sum_of(const Fact& a, const Fact& b);  // of those that are known

// The numbers of the entries of a folder that are called `prefix` and a number, in order: cpu0, cpu1, ...
std::vector<std::int64_t> numbered_entries(const std::string& folder, std::string_view prefix);

}  // namespace bascule
