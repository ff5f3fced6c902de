// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "src/commands/report_error.h"

namespace bascule {
namespace {

// A handler can reach static storage only.
volatile std::sig_atomic_t received = 0;  // the last one
volatile std::sig_atomic_t interrupted = 0, terminated = 0, hung_up = 0;
volatile std::sig_atomic_t launches_ranks = 0;
volatile std::sig_atomic_t ends_at_once = 0;

constexpr char kLastWordsOfRun[] =
    "bascule: run: second signal: stopping at once, without saving; run the same command again to go on from what is "
    "saved\n";
const char* volatile last_words = kLastWordsOfRun;

extern "C" void note_signal(int number) {
  volatile std::sig_atomic_t& seen = number == SIGINT ? interrupted : number == SIGTERM ? terminated : hung_up;
  received = number;
  if (seen == 0) {
    seen = 1;
    return;
  }
  if (ends_at_once != 0) return;
  const int error = errno;
  // Nothing can be done where it cannot be said.
  if (write(STDERR_FILENO, last_words, std::strlen(last_words)) < 0) errno = error;
  if (launches_ranks == 0) {
    write_document_of_signal(number);
    _exit(128 + number);
  }
  ends_at_once = 1;
  errno = error;
}

// oneDNN's products switch to a small stack of their own in the heap: a handler's frame there would overwrite what lies
// below it. The kernel gives a process's signals to its first thread wherever that takes them.
alignas(64) char handler_stack[64 * 1024];

sigset_t stop_signals() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, number);
  return stops;
}

void use_handler_stack() {
  stack_t stack = {};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, nullptr);
}

}  // namespace

void catch_stop_signals(bool launches, const char* words) {
  last_words = words != nullptr ? words : kLastWordsOfRun;
  launches_ranks = launches ? 1 : 0;
  use_handler_stack();
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  // A signal that the caller ignores stays ignored: SIGHUP under nohup, SIGINT of a script's background job.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  // The parent process may have blocked them.
  const sigset_t stops = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
}

void leave_stop_signals() {
  const sigset_t stops = stop_signals();
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  if (received != 0) std::raise(received);
}

const volatile int* stop_signal() { return &received; }

const volatile int* end_at_once() { return &ends_at_once; }

std::string stopped_text(int signal, std::int64_t saved) {
  const char* const name = signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM";
  return std::string("run: stopped by ") + name +
         (saved > 0 ? " after update " + std::to_string(saved) + ", which was saved" : "") +
         "; run the same command again to resume";
}

}  // namespace bascule
