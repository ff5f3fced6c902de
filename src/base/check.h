// SPDX-License-Identifier: Apache-2.0
// Checks for mistakes of ours, never for bad input. A failed check prints one line and ends the program with exit
// code 1.
//   BASCULE_CHECK   always on: where being wrong would corrupt memory or a checkpoint
//   BASCULE_DCHECK  debug builds only: invariants
#pragma once

namespace bascule {

[[noreturn]] void check_failed(const char* file, int line, const char* condition) noexcept;

// Further output where a failed check ends the program: called once with what is wrong, after the line on standard
// error.
using LastWords = void (*)(const char* what);
// Null: nothing more is said.
void set_last_words(LastWords words) noexcept;

}  // namespace bascule

#define BASCULE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::bascule::check_failed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define BASCULE_DCHECK(condition) static_cast<void>(0)
#else
#define BASCULE_DCHECK(condition) BASCULE_CHECK(condition)
#endif
