// SPDX-License-Identifier: Apache-2.0
// The limit of open files, where an open runs into it.
#pragma once

#include <cerrno>

namespace bascule {

// The advice for a file or folder that could not be opened or listed with this errno; "" where the reason is enough.
inline const char* advice_for_open(int error) {
  return error == EMFILE ? "raise the limit of open files (ulimit -n)" : "";
}

}  // namespace bascule
