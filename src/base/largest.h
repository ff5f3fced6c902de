// SPDX-License-Identifier: Apache-2.0
// The largest of some numbers, for predictions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bascule {

// places[0, most): of the largest values, the largest first and the first of equals first. Returns how many there are,
// `most` or, of fewer values, all. Allocates nothing.
inline std::int64_t places_of_largest(const float* values, std::int64_t count, std::int32_t* places,
                                      std::int64_t most) noexcept {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = found;
    while (place > 0 && values[i] > values[places[place - 1]]) --place;
    if (place == most) continue;
    found = std::min(found + 1, most);
    std::copy_backward(places + place, places + found - 1, places + found);
    places[place] = static_cast<std::int32_t>(i);
  }
  return found;
}

}  // namespace bascule
