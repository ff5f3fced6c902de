// SPDX-License-Identifier: Apache-2.0
// Keeps the first of many, in an order that they do not come in: examples of a finding. Of equal ones those that came
// first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace bascule {

// In order, and no more than that.
template <typename T, typename Before>
void keep_first(std::vector<T>* list, std::size_t most, const Before& before) {
  std::stable_sort(list->begin(), list->end(), before);
  if (list->size() > most) list->erase(list->begin() + static_cast<std::ptrdiff_t>(most), list->end());
}

// The list holds at most twice as many until keep_first().
template <typename T, typename Before>
void add_one(std::vector<T>* list, T one, std::size_t most, const Before& before) {
  list->push_back(std::move(one));
  if (list->size() / 2 >= most) keep_first(list, most, before);
}

}  // namespace bascule
