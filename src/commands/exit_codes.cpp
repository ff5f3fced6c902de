// SPDX-License-Identifier: Apache-2.0
#include "src/commands/exit_codes.h"

#include <csignal>

#include "src/base/error.h"

namespace bascule {
namespace {

ExitCode of(ErrorKind kind, const char* meaning) { return {std::to_string(exit_code(kind)), meaning}; }

std::string of_signal(int number) { return std::to_string(128 + number); }

}  // namespace

std::vector<ExitCode> exit_codes() {
  return {{"0", "done"},
          of(ErrorKind::kInternal, "bug in Bascule"),
          of(ErrorKind::kSettings, "settings or command line"),
          of(ErrorKind::kData, "data, model or device"),
          of(ErrorKind::kMemory, "not enough memory"),
          of(ErrorKind::kRank, "a rank failed"),
          of(ErrorKind::kDisk, "disk"),
          of(ErrorKind::kNotAsRecorded, "machine or result is not what was recorded"),
          {of_signal(SIGHUP) + ", " + of_signal(SIGINT) + ", " + of_signal(SIGTERM),
           "stopped by a signal (SIGHUP, SIGINT, SIGTERM) after saving"}};
}

}  // namespace bascule
