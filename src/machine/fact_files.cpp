// SPDX-License-Identifier: Apache-2.0
#include "src/machine/fact_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

#include "src/base/paths.h"

namespace bascule {
namespace {

std::string without_end_spaces(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

TextFact text_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  line = without_end_spaces(std::move(line));
  return line.empty() ? TextFact() : TextFact(std::move(line));
}

std::string whole_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream stream{std::string(text)};
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

TextFact value_of(const std::string& text, std::string_view key) {
  for (const std::string& line : lines_of(text)) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t after = line.find_first_not_of(" \t", key.size());
    if (after == std::string::npos) return std::nullopt;
    const bool has_colon = line[after] == ':';
    if (!has_colon && after == key.size()) continue;  // a longer key
    const std::size_t value = line.find_first_not_of(" \t", after + (has_colon ? 1 : 0));
    if (value == std::string::npos) return std::nullopt;
    return without_end_spaces(line.substr(value));
  }
  return std::nullopt;
}

Fact number_of(const TextFact& text) {
  if (!text || text->empty() || (*text)[0] < '0' || (*text)[0] > '9') return std::nullopt;
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), number);
  // Version 1 writes "no limit" as the largest number of pages, in bytes; larger ones do not fit.
  if (failure == std::errc::result_out_of_range) return kUnlimited;
  return failure == std::errc() ? Fact(number) : Fact();
}

Fact number_in(const std::string& path) { return number_of(text_in(path)); }

Fact limit_of(const TextFact& text) {
  if (text && (text->compare(0, 3, "max") == 0 || text->compare(0, 9, "unlimited") == 0)) return kUnlimited;
  return number_of(text);
}

Fact times(const Fact& fact, std::int64_t factor) { return fact ? Fact(*fact * factor) : Fact(); }

Fact sum_of(const Fact& a, const Fact& b) { return a && b ? Fact(*a + *b) : a ? a : b; }

std::vector<std::int64_t> numbered_entries(const std::string& folder, std::string_view prefix) {
  std::vector<std::int64_t> numbers;
  for (const std::string& name : names_in(folder)) {
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    std::int64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [after, failure] = std::from_chars(name.data() + prefix.size(), end, number);
    if (failure == std::errc() && after == end) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<std::int64_t> numbers_of_list(const TextFact& list) {
  constexpr std::int64_t kMost = 1 << 20;  // of a list that makes sense
  std::vector<std::int64_t> numbers;
  std::istringstream parts(list.value_or(""));
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const Fact first = number_of(part.substr(0, dash));
    const Fact last = dash == std::string::npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last || *last > kMost) return {};
    for (std::int64_t number = *first; number <= *last; ++number) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace bascule
