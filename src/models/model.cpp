// SPDX-License-Identifier: Apache-2.0
#include "src/models/model.h"

#include <algorithm>

#include "src/base/check.h"

namespace bascule {

Tensor Recording::output(const std::string& name) const {
  const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const auto& one) { return one.name == name; });
  BASCULE_CHECK(found != outputs.end());
  return found->tensor;
}

bool serves(const Model& model, Use use) {
  const std::vector<Use> uses = model.uses();
  return std::find(uses.begin(), uses.end(), use) != uses.end();
}

}  // namespace bascule
