// SPDX-License-Identifier: Apache-2.0
#include "src/update/bucket_marks.h"

#include <algorithm>
#include <cstddef>

namespace bascule {

std::vector<std::int64_t> bucket_marks(const std::vector<std::int64_t>& final_steps, const ParameterLayout& layout,
                                       const std::vector<std::int64_t>& ends) {
  std::vector<std::int64_t> marks;
  for (const std::int64_t end : ends) {
    std::int64_t mark = 0;
    for (std::size_t p = 0; p < final_steps.size(); ++p) {
      const ParameterLayout::Place& place = layout.places[p];
      if (place.trained && place.offset < end) mark = std::max(mark, final_steps[p]);
    }
    marks.push_back(mark);
  }
  return marks;
}

}  // namespace bascule
