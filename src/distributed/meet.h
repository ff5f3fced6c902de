// SPDX-License-Identifier: Apache-2.0
// A barrier of the start, by all ranks of the group together. Before the seal.
#pragma once

#include "src/base/error.h"
#include "src/distributed/group.h"

namespace bascule {

// what: was being done, for the Error kRank where the run has failed.
inline void meet(Group& group, const char* what) {
  if (!group.barrier()) throw Error(ErrorKind::kRank, what, "another rank failed");
}

}  // namespace bascule
