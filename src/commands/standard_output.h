// SPDX-License-Identifier: Apache-2.0
// Where what a command prints goes, and whether anybody reads it.
#pragma once

#include "src/base/descriptor.h"

namespace bascule {

// Whether whoever read from the other end of a pipe or socket has closed it.
bool is_reader_gone(int descriptor);

// While it lives, what is printed to standard output goes to standard error, by processes that are started too.
class OutputToError {
 public:
  OutputToError();
  ~OutputToError();
  OutputToError(const OutputToError&) = delete;
  OutputToError& operator=(const OutputToError&) = delete;

 private:
  Descriptor kept_;
};

}  // namespace bascule
