// SPDX-License-Identifier: Apache-2.0
// Which files this program asks the system to write, sync, rename and remove, in order: a crash may keep all that was
// synced and lose all that was not, so the order is the promise. While a RecordedCalls lives, recorded_calls.cpp's own
// write(), fsync(), rename(), renameat2() and unlinkat() note what lies below its folder and then call the C library's.
#pragma once

#include <string>
#include <vector>

namespace bascule::test {

class RecordedCalls {
 public:
  explicit RecordedCalls(std::string folder);  // one at a time
  ~RecordedCalls();
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;

  // From now on every other write below the folder is interrupted by a signal, and the rest take few bytes each.
  void disturb_writes();

  // "write a", "sync a", "rename a b", "exchange a b", "remove a"; paths are relative to the folder, which is ".".
  // Writes of one file in a row are one.
  std::vector<std::string> calls() const;
};

}  // namespace bascule::test
