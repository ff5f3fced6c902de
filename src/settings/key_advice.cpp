// SPDX-License-Identifier: Apache-2.0
#include "src/settings/key_advice.h"

#include "src/settings/keys.h"
#include "src/settings/nearest_key.h"

namespace bascule {
namespace {

std::vector<std::string> key_names(const std::string& table) {
  std::vector<std::string> names;
  for (const Key& key : keys_of_file()) {
    if (table == key.table) names.emplace_back(key.name);
  }
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
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
  return near ? "did you mean [" + *near + "]?" : "tables: " + listed(tables);
}

// The nearest key: the same name in another table before a similar one in this. A similar one elsewhere is meant only
// where no table is named.
std::string advice_for_key(const std::string& table, const std::string& name) {
  const std::vector<std::string> here = key_names(table);
  for (const Key& key : keys_of_file()) {
    if (name == key.name) return "it belongs in [" + std::string(key.table) + "]";
  }
  if (const auto near = nearest_name(name, here)) return "did you mean " + quoted(*near) + "?";
  if (!here.empty()) return "keys of [" + table + "]: " + listed(here);
  for (const std::string& other : table_names()) {
    const auto near = nearest_name(name, key_names(other));
    if (near) return "did you mean " + quoted(*near) + " in [" + other + "]?";
  }
  return "every key belongs in a table: " + listed(table_names());
}

}  // namespace bascule
