// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace bascule {
namespace {

std::atomic<LastWords> last_words{nullptr};

}  // namespace

void set_last_words(LastWords words) noexcept { last_words.store(words); }

void check_failed(const char* file, int line, const char* condition) noexcept {
  char what[512];
  std::snprintf(what, sizeof what, "bug: %s:%d: check failed: %s; please report this line", file, line, condition);
  std::fprintf(stderr, "bascule: %s\n", what);
  if (const LastWords words = last_words.exchange(nullptr)) words(what);
  std::_Exit(1);
}

}  // namespace bascule
