// SPDX-License-Identifier: Apache-2.0
// The limit of open files, where an open runs into it.
#pragma once

#include <cerrno>

namespace bascule {

// The advice for a file or folder that could not be opened or listed with this errno; "" where the reason is enough.
inline const char* advice_for_open(int error) {
  return error == EMFILE   ? "raise the limit of open files (ulimit -n)"
         : error == ENFILE ? "raise the limit of open files of this machine (sysctl fs.file-max)"
                           : "";
}

// Whether this errno says that there are too many open files: nothing about the file that was to be opened.
inline bool is_open_files_limit(int error) { return error == EMFILE || error == ENFILE; }

}  // namespace bascule
