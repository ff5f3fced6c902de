// SPDX-License-Identifier: Apache-2.0
#include "src/text/token_id.h"

#include "src/base/error.h"

namespace bascule {

std::int32_t token_id(const Json& value, const std::string& token, const std::string& where) {
  if (value.is_integer() && value.integer() >= 0 && value.integer() < kMostTokenIds)
    return static_cast<std::int32_t>(value.integer());
  throw Error{ErrorKind::kData, where, "the id of token \"" + token + "\" is " + json_text(value),
              "ids are whole numbers from 0 to " + std::to_string(kMostTokenIds - 1)};
}

}  // namespace bascule
