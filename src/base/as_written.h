// SPDX-License-Identifier: Apache-2.0
// The number that people write for a float: 4.2 for 4.2f, which as a double is 4.199999809265137. Allocates nothing.
#pragma once

namespace bascule {

// What the shortest decimal text that reads back to the same float is as a double.
double as_written(float value) noexcept;

}  // namespace bascule
