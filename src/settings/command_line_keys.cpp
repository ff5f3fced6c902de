// SPDX-License-Identifier: Apache-2.0
#include "src/settings/command_line_keys.h"

#include "src/base/error.h"

namespace bascule {

Precision read_number_type(const std::string& word) {
  if (word == "float32") return Precision::kFloat32;
  if (word == "bf16") return Precision::kBf16;
  throw Error(ErrorKind::kSettings, "--precision", "\"" + word + "\" is not a number type", "use float32 or bf16");
}

}  // namespace bascule
