// SPDX-License-Identifier: Apache-2.0
#include "src/settings/nearest_key.h"

#include <algorithm>

#include "src/base/paths.h"
#include "src/settings/keys.h"

namespace bascule {
namespace {

char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: distances of prefixes of a of length i-2, i-1, i to all prefixes of b.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = above;
    above = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool equal = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (equal ? 0U : 1U)});
      const bool swapped =
          i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest_name(std::string_view written, const std::vector<std::string>& names) {
  std::optional<std::string> best;
  std::size_t least = std::max<std::size_t>(2, written.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(written, name);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

namespace {

std::vector<std::string> key_names(const std::string& table) {
  std::vector<std::string> names;
  for (const Key& key : keys_of_file()) {
    if (table == key.table) names.emplace_back(key.name);
  }
  return names;
}

}  // namespace

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const Key& key : keys_of_file()) {
    if (names.empty() || names.back() != key.table) names.emplace_back(key.table);
  }
  return names;
}

std::string advice_for_table(const std::string& name) {
  const std::vector<std::string> tables = table_names();
  const auto near = nearest_name(name, tables);
  return near ? "did you mean [" + *near + "]?" : "tables: " + joined(tables);
}

// The nearest key: the same name in another table before a similar one in this. A similar one elsewhere is meant only
// where no table is named.
std::string advice_for_key(const std::string& table, const std::string& name) {
  const std::vector<std::string> here = key_names(table);
  for (const Key& key : keys_of_file()) {
    if (name == key.name) return "it belongs in [" + std::string(key.table) + "]";
  }
  if (const auto near = nearest_name(name, here)) return "did you mean " + quoted(*near) + "?";
  if (!here.empty()) return "keys of [" + table + "]: " + joined(here);
  for (const std::string& other : table_names()) {
    const auto near = nearest_name(name, key_names(other));
    if (near) return "did you mean " + quoted(*near) + " in [" + other + "]?";
  }
  return "every key belongs in a table: " + joined(table_names());
}

}  // namespace bascule
