// SPDX-License-Identifier: Apache-2.0
#include "src/base/normal_values.h"

#include "src/base/elementary.h"

namespace bascule {

void fill_normal(float* destination, std::int64_t first, std::int64_t count, double deviation, PhiloxKey key,
                 std::uint64_t stream) noexcept {
  const std::int64_t end = first + count;
  for (std::int64_t block = first / 4; 4 * block < end; ++block) {
    const auto number = static_cast<std::uint64_t>(block);
    const PhiloxBlock words =
        philox4x32({{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                     static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                   key);
    double values[4];
    fixed_normal_pair(words.word[0], words.word[1], &values[0], &values[1]);
    fixed_normal_pair(words.word[2], words.word[3], &values[2], &values[3]);
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t element = 4 * block + k;
      if (element >= first && element < end) destination[element - first] = static_cast<float>(deviation * values[k]);
    }
  }
}

}  // namespace bascule
