// SPDX-License-Identifier: Apache-2.0
#include "src/draw/sampler.h"

namespace bascule {

extern const Sampler kDdim, kPndm, kEuler;  // each in its own file

const std::vector<const Sampler*>& samplers() {
  static const std::vector<const Sampler*> all = {&kDdim, &kPndm, &kEuler};
  return all;
}

}  // namespace bascule
