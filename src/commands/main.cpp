// SPDX-License-Identifier: Apache-2.0
// The program: reads the command line, runs one command, turns an Error into one line and its exit code.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "src/base/elementary.h"
#include "src/base/error.h"
#include "src/commands/commands.h"
#include "src/commands/report_error.h"

namespace bascule {
namespace {

int run_command_line(int argc, char** argv) {
  const int code = run_chosen(argc, argv);
  // Once for all commands: what they printed may have gone to a full disk. A reader that stops reading has what it
  // wants.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && !is_reader_gone(STDOUT_FILENO))
    throw Error(ErrorKind::kDisk, "standard output", "writing failed", "the output is incomplete");
  return code;
}

// A descriptor that the caller has closed would be given to the next file, socket or memory of ours, and what is
// printed would go there.
void open_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (opened != descriptor) _exit(exit_code(ErrorKind::kInternal));  // there is nobody to tell
  }
}

// The first thread's; others have stacks of their own. One that is used up ends the program without a word.
void check_stack() {
  constexpr rlim_t kLeast = rlim_t{256} << 10;  // a run needs 96 KiB
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeast) return;
  throw Error(ErrorKind::kMemory, "ulimit -s",
              "the stack may have only " + std::to_string(stack.rlim_cur >> 10) + " KiB, too little for Bascule",
              "allow " + std::to_string(kLeast >> 10) + " KiB or more");
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  bascule::open_standard_descriptors();
  bascule::use_default_float_environment();
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is a full disk: an error of the write, told in words
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that goes away is no reason to stop
  const bool json = bascule::asks_for_json(argc, argv);
  if (json) bascule::promise_document();
  try {
    bascule::check_stack();
    return bascule::run_command_line(argc, argv);
  } catch (const std::exception& thrown) {
    return bascule::report_error(bascule::error_of(thrown), json && bascule::prints_errors());
  }
}
