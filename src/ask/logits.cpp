// SPDX-License-Identifier: Apache-2.0
#include "src/ask/logits.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "src/base/elementary.h"
#include "src/base/error.h"
#include "src/base/utf8.h"

namespace bascule {

Tensor reference_logits(const Recording& recording) {
  const auto found = std::find_if(recording.reference.begin(), recording.reference.end(),
                                  [](const ReferenceOutput& output) { return output.name == "logits"; });
  if (found == recording.reference.end()) throw Error(ErrorKind::kInternal, "predict", "the model has no logits");
  return found->tensors.front();
}

void refuse_not_finite_logits(const float* logits, std::int64_t count, const std::string& folder) {
  if (!std::all_of(logits, logits + count, [](float x) { return std::isfinite(x); }))
    throw Error(ErrorKind::kData, folder, "the model's logits are not finite", "its weights may be damaged");
}

std::vector<TokenOrClass> most_probable(const float* logits, std::int64_t count, std::size_t top) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + static_cast<std::int64_t>(std::min(top, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [logits](std::int64_t a, std::int64_t b) {
    return logits[a] > logits[b] || (!(logits[b] > logits[a]) && a < b);
  });
  const double largest = static_cast<double>(*std::max_element(logits, logits + count));
  const auto power = [largest](float x) { return fixed_exp(static_cast<double>(x) - largest); };
  const double sum =
      std::accumulate(logits, logits + count, 0.0, [&](double total, float x) { return total + power(x); });
  std::vector<TokenOrClass> best;
  for (auto id = ids.begin(); id != end; ++id) best.push_back({*id, power(logits[*id]) / sum});
  return best;
}

std::string shown_guess(double probability, const std::string& name) {
  const double percent = 100.0 * probability;
  char number[32];
  std::snprintf(number, sizeof number, percent < 1.0 ? "%#.2g" : "%.1f", percent);
  char shown[48];
  std::snprintf(shown, sizeof shown, "  %7s %%  ", number);
  return printable_line(shown + name) + "\n";
}

}  // namespace bascule
