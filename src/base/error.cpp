// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"

#include <utility>

namespace bascule {

Error::Error(ErrorKind kind, std::string where, std::string what, std::string what_to_do)
    : kind_(kind), where_(std::move(where)), problem_(std::move(what)), what_to_do_(std::move(what_to_do)) {
  line_ = where_.empty() ? problem_ : where_ + ": " + problem_;
  if (!what_to_do_.empty()) line_ += "; " + what_to_do_;
  for (char& c : line_) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
}

}  // namespace bascule
