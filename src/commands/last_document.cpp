// SPDX-License-Identifier: Apache-2.0
#include "src/commands/last_document.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "src/base/error.h"
#include "src/base/last_words.h"
#include "src/commands/report_error.h"
#include "src/json/json.h"
#include "src/runtime/guard.h"

namespace bascule {
namespace {

struct EndingSignal {
  int number;
  const char* kind;
  const char* what;
};

constexpr EndingSignal kSignals[] = {{SIGINT, "stopped", "stopped by SIGINT"},
                                     {SIGTERM, "stopped", "stopped by SIGTERM"},
                                     {SIGHUP, "stopped", "stopped by SIGHUP"},
                                     {SIGQUIT, "stopped", "stopped by SIGQUIT"},
                                     {SIGXCPU, "stopped", "stopped by SIGXCPU: the limit of processor time"},
                                     {SIGABRT, "bug", "bug: the program aborted; standard error says why"},
                                     {SIGSEGV, "bug", "bug: ended by SIGSEGV"},
                                     {SIGBUS, "bug", "bug: ended by SIGBUS; a file that was mapped may have been cut"},
                                     {SIGFPE, "bug", "bug: ended by SIGFPE"},
                                     {SIGILL, "bug", "bug: ended by SIGILL"}};

// A handler can reach static storage only.
std::atomic<bool> is_promised{false}, is_other_rank{false};

void end_by_check(const char* what) {
  if (!is_promised.exchange(false)) return;
  open_memory();  // the document is built as any other; where that fails, the handlers below are left
  std::fputs(error_document(Error(ErrorKind::kInternal, "", what)).c_str(), stdout);
  std::fflush(stdout);
}

// The handler is gone by then: the signal ends the process as it would have.
extern "C" void end_by_signal(int number) {
  write_document_of_signal(number);
  raise(number);
}

std::string document(const char* kind, int code, const std::string& where, const std::string& what,
                     const std::string& what_to_do) {
  const Json error = {
      {"kind", kind}, {"exit_code", code}, {"where", where}, {"what", what}, {"what_to_do", what_to_do}};
  return json_text(Json{{"error", error}}, 2) + "\n";
}

}  // namespace

void promise_document() {
  is_promised.store(true);
  set_last_words(&end_by_check);
  struct sigaction action = {};
  action.sa_handler = end_by_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  for (const EndingSignal& signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal.number, nullptr, &before);
    if (before.sa_handler == SIG_DFL) sigaction(signal.number, &action, nullptr);
  }
}

void speak_as_rank(int rank) {
  is_promised.store(false);
  if (rank > 0) is_other_rank.store(true);
}

bool prints_errors() { return !is_other_rank.load(); }

void write_document_of_signal(int number) noexcept {
  if (!is_promised.exchange(false)) return;
  for (const EndingSignal& signal : kSignals) {
    if (signal.number != number) continue;
    char text[320];
    const int length = std::snprintf(text, sizeof text,
                                     "{\"error\": {\"exit_code\": %d, \"kind\": \"%s\", \"what\": \"%s\", "
                                     "\"what_to_do\": \"\", \"where\": \"\"}}\n",
                                     128 + number, signal.kind, signal.what);
    const int error = errno;
    if (write(STDOUT_FILENO, text, static_cast<std::size_t>(length)) < 0) errno = error;  // nobody reads it
  }
}

std::string document_of_stop(int signal, const std::string& what) {
  return document("stopped", 128 + signal, "", what, "");
}

std::string document_of_exit_code(int code, const std::string& where, const std::string& what,
                                  const std::string& how_to_resume) {
  const char* const what_to_do = "the last lines on standard error say why";
  if (code > 128) return document("stopped", code, where, "stopped by a signal", how_to_resume);
  if (code > exit_code(ErrorKind::kNotAsRecorded)) return document("bug", code, where, what, what_to_do);
  return error_document(Error(static_cast<ErrorKind>(code), where, what, what_to_do));
}

}  // namespace bascule
