// SPDX-License-Identifier: Apache-2.0
// A case's gradients, ours beside those that it stores: whole, or of a large case elements k * max(1, count / S), for
// its S samples. Layout: tests/data/goldens/README.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/session/session.h"
#include "src/verify/verify_files.h"

namespace bascule {

struct CaseGradient {
  std::string name;                 // of the parameter
  std::size_t elements = 0;         // of the parameter
  std::optional<double> zero_part;  // norm of our slice that is zero in exact arithmetic; below it is zero
  bool is_all_zero = false;         // that slice is the whole parameter: nothing below is set
  bool is_sampled = false;          // ours and truth: samples
  double length = 0.0;              // norm of our whole gradient
  std::vector<float> ours, truth;
};

// Calls judge with the gradient of each trained parameter's pieces, in the order of the parameters, after a step. A
// parameter of which the case holds neither the gradient nor its error has a line in not_compared instead. Throws Error
// kData.
void for_each_gradient(const CaseFiles& files, const Session& session, std::vector<NotCompared>* not_compared,
                       const std::function<void(const CaseGradient&)>& judge);

}  // namespace bascule
