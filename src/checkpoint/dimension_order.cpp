// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/dimension_order.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {
namespace {

// Calls move(place in memory, place among the values, elements, stride in memory) for each part of the file's last
// dimension.
template <typename Move>
void walk(const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count, Move move) noexcept {
  const std::int64_t inner = shape.empty() ? 1 : shape.back();
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t index = first + done;
    std::int64_t rest = index, place = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      place += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    const std::int64_t part = std::min(count - done, inner - index % inner);
    move(place, done, part, shape.empty() ? 1 : strides.back());
    done += part;
  }
}

template <typename Number>
void scatter_numbers(Number* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
                     const Number* values) noexcept {
  walk(shape, strides, first, count, [=](std::int64_t place, std::int64_t done, std::int64_t part, std::int64_t step) {
    for (std::int64_t i = 0; i < part; ++i) base[place + i * step] = values[done + i];
  });
}

}  // namespace

Extents strides_in_memory(const Extents& shape, const DimensionOrder& order) {
  BASCULE_CHECK(order.empty() || order.size() == shape.size());
  Extents strides(shape.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::size_t d = order.empty() ? i : static_cast<std::size_t>(order[i]);
    BASCULE_CHECK(d < shape.size() && strides[d] == 0);
    strides[d] = step;
    step *= std::max<std::int64_t>(1, shape[d]);
  }
  return strides;
}

void scatter(float* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const float* values) noexcept {
  scatter_numbers(base, shape, strides, first, count, values);
}

void scatter(std::uint16_t* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const std::uint16_t* values) noexcept {
  scatter_numbers(base, shape, strides, first, count, values);
}

void gather(float* values, const float* base, const Extents& shape, const Extents& strides, std::int64_t first,
            std::int64_t count) noexcept {
  walk(shape, strides, first, count, [=](std::int64_t place, std::int64_t done, std::int64_t part, std::int64_t step) {
    for (std::int64_t i = 0; i < part; ++i) values[done + i] = base[place + i * step];
  });
}

}  // namespace bascule
