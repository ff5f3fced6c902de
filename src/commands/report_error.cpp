// SPDX-License-Identifier: Apache-2.0
#include "src/commands/report_error.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "src/base/check.h"
#include "src/base/systemd.h"
#include "src/json/json.h"
#include "src/runtime/guard.h"
#include "src/text/unicode_tables.h"

namespace bascule {

constexpr char kWithoutMemory[] =
    "{\"error\": {\"exit_code\": 4, \"kind\": \"memory\", \"what\": \"out of memory\", \"what_to_do\": \"\", "
    "\"where\": \"\"}}\n";

bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strncmp(argv[i], "--json", 6) == 0 && (argv[i][6] == '\0' || argv[i][6] == '=')) return true;
  }
  return false;
}

std::string error_document(const Error& error) { return json_text(Json{{"error", error_json(error)}}, 2) + "\n"; }

Error error_of(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr)
    return Error(ErrorKind::kMemory, "", "out of memory", "see `bascule plan`");
  if (const auto* failure = dynamic_cast<const std::filesystem::filesystem_error*>(&thrown)) {
    const std::string path = failure->path1().string();
    return Error(ErrorKind::kData, path.empty() ? "the current folder" : path,
                 "cannot be read: " + failure->code().message(), advice_for_open(failure->code().value()));
  }
  const auto* refused = dynamic_cast<const std::system_error*>(&thrown);
  if (refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again)
    return Error(ErrorKind::kMemory, "threads", "one cannot be started: " + refused->code().message(),
                 "allow more of them (ulimit -u, or pids.max of the control group) or more memory (ulimit -v), or use "
                 "fewer");
  return Error(ErrorKind::kInternal, "", std::string("bug: ") + thrown.what());
}

void say(const std::string& line) { std::fprintf(stderr, "bascule: %s\n", line.c_str()); }

namespace {

void print_error(const Error& error, bool json) noexcept {
  std::fprintf(stderr, "%sbascule: %s\n", journal_error_mark(), error.what());
  try {
    if (json) std::fputs(error_document(error).c_str(), stdout);
  } catch (const std::exception&) {
    std::fputs(kWithoutMemory, stdout);
  }
}

}  // namespace

int report_error(const Error& error, bool json) noexcept {
  std::optional<Error> with_note;
  try {
    const bool may_be_read = error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kSettings;
    const std::string note = may_be_read ? note_on_other_form(error.where()) : "";
    if (!note.empty()) with_note.emplace(error.kind(), error.where(), error.problem() + note, kOtherFormAdvice);
  } catch (const std::exception&) {
    // Out of memory: without the note.
  }
  print_error(with_note ? *with_note : error, json);
  return exit_code(error.kind());
}

namespace {

// The watch ends this process, with the exit code of the rank that failed.
[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}

// Says what ended this rank, if it is the first to end, and ends the others.
int give_up(Group& group, bool json, const Error& error) {
  const std::string rank = group.is_first() ? "" : "rank " + std::to_string(group.rank()) + ": ";
  const int code = exit_code(error.kind());
  if (!group.give_up(code, journal_error_mark() + ("bascule: " + rank) + error.what() + "\n",
                     json ? error_document(error) : ""))
    wait_for_the_end();
  std::fflush(stdout);
  return code;
}

std::vector<double> told(Group& group, double own) {
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  if (!group.exchange({&own, 1}, Span<double>(all))) throw PeerFailed{};
  return all;
}

}  // namespace

int in_group(Group& group, bool json, const std::function<int()>& body) {
  if (group.size() == 1) return body();
  int code = 0;
  try {
    code = body();
  } catch (const PeerFailed&) {
    wait_for_the_end();
  } catch (const std::exception& thrown) {
    return give_up(group, json, error_of(thrown));
  }
  std::fflush(stdout);
  if (!group.leave()) wait_for_the_end();
  return code;
}

void agree_on(Group& group, const std::function<void()>& part) {
  std::exception_ptr error;
  try {
    part();
  } catch (...) {
    error = std::current_exception();
  }
  const std::vector<double> failed = told(group, error ? 1.0 : 0.0);
  for (int rank = 0; rank < group.size(); ++rank) {
    if (failed[static_cast<std::size_t>(rank)] == 0.0) continue;
    if (rank != group.rank()) throw PeerFailed{};
    std::rethrow_exception(error);
  }
}

bool any_of(Group& group, bool own) {
  bool any = false;
  for (const double one : told(group, own ? 1.0 : 0.0)) any = any || one != 0.0;
  return any;
}

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

bool is_reader_gone(int descriptor) {
  pollfd polled = {descriptor, 0, 0};
  return poll(&polled, 1, 0) > 0 && (polled.revents & (POLLERR | POLLHUP)) != 0;
}

OutputToError::OutputToError() : kept_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
  std::fflush(stdout);
  if (!kept_.is_open() || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw Error(ErrorKind::kDisk, "standard output", std::string("cannot be redirected: ") + std::strerror(errno));
}

OutputToError::~OutputToError() {
  std::fflush(stdout);
  // Standard output's own reader may well be there: that standard error's has gone is no failure of what follows.
  if (is_reader_gone(STDERR_FILENO)) std::clearerr(stdout);
  dup2(kept_.number(), STDOUT_FILENO);
}

}  // namespace bascule
