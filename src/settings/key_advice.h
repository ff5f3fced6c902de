// SPDX-License-Identifier: Apache-2.0
// Advice for a table or a key that does not exist. Before the seal.
#pragma once

#include <string>
#include <vector>

namespace bascule {

// Tables in the order of the keys: "model", "data", "media_engine", "media_engine.simulation", ...
std::vector<std::string> table_names();

std::string advice_for_table(const std::string& name);
// table: where the key was written; empty: outside a table.
std::string advice_for_key(const std::string& table, const std::string& name);

}  // namespace bascule
