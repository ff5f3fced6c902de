// SPDX-License-Identifier: Apache-2.0
// The cases that norms of rows are tested in: with and without the residual sum and dropout, which gradients
// are wanted, and which arrays may be one.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/dropout.h"

namespace bascule::test {

inline constexpr std::int64_t kNormRows = 3;
inline const std::uint64_t kNormRowKeys[kNormRows] = {dropout_row_key(0, 0), dropout_row_key(70000, 3),
                                                      dropout_row_key(5, 65535)};

inline DropoutStream tenth() {
  DropoutStream stream;
  stream.threshold = 429496730;  // 0.1
  stream.scale = static_cast<float>(1.0 / 0.9);
  stream.key[0] = 17;
  stream.key[1] = 4;
  stream.operation = 5;
  return stream;
}

enum class Residual { kNone, kPlain, kDropped };

struct BackwardCase {
  bool d_sum, d_h, dropped, parts, accumulate;
};
inline std::vector<BackwardCase> backward_cases() {
  return {{false, false, false, true, false}, {true, false, false, true, false}, {true, true, false, true, false},
          {true, true, true, true, false},    {true, true, true, false, true},   {false, true, true, true, true}};
}

// Which arrays are one: d_x over d_sum, d_x over d_y, d_h over d_y.
enum class Alias { kNone, kDxIsDsum, kDxIsDy, kDhIsDy };
// The arrays that may be one in a case.
inline std::vector<Alias> aliases_of(const BackwardCase& c) {
  std::vector<Alias> aliases = {Alias::kDhIsDy};
  if (!c.accumulate) aliases.push_back(Alias::kDxIsDy);
  if (!c.accumulate && c.d_sum) aliases.push_back(Alias::kDxIsDsum);
  return aliases;
}

}  // namespace bascule::test
