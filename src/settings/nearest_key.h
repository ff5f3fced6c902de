// SPDX-License-Identifier: Apache-2.0
// Advice on names that do not exist.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bascule {

// Suggests the name that was probably meant: the nearest in a list by edit distance, if near enough to be a typo.
// Before the seal.

// Insertions, deletions, changes and swaps of neighbours that turn one into the other; case and '-' for '_' are free.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The first of the nearest, or nothing if none is within a third of the written name's length (at least 2).
std::optional<std::string> nearest_name(std::string_view written, const std::vector<std::string>& names);

// Advice for a table or a key that does not exist. Before the seal.

// Tables in the order of the keys: "model", "data", "media_engine", "media_engine.simulation", ...
std::vector<std::string> table_names();

std::string advice_for_table(const std::string& name);
// table: where the key was written; empty: outside a table.
std::string advice_for_key(const std::string& table, const std::string& name);

}  // namespace bascule
