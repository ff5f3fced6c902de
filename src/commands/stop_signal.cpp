// SPDX-License-Identifier: Apache-2.0
#include "src/commands/stop_signal.h"

#include <csignal>

namespace bascule {
namespace {

// A handler can reach static storage only.
volatile std::sig_atomic_t received = 0;

extern "C" void note_signal(int number) { received = number; }

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // Under nohup it stays ignored.
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  // A reader of our output that goes away is no reason to stop training.
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  // A file at its size limit is a full disk: an error of the write, not an end without words.
  sigaction(SIGXFSZ, &ignore, nullptr);
}

const volatile int* stop_signal() { return &received; }

}  // namespace bascule
