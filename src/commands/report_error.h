// SPDX-License-Identifier: Apache-2.0
// Errors as commands report them: of a process, of one rank among several, and of a program that ends otherwise.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/distributed/group.h"

namespace bascule {

// Messages of a command on standard error. One that failed says so in one line there and, with --json, in one JSON
// document on standard output.

// Whether the command line asks for JSON, also one that is refused.
bool asks_for_json(int argc, const char* const* argv);

// {"error": {...}} (src/json/json.h) and a line break.
std::string error_document(const Error& error);

// The thrown exception as an Error: itself, or one for memory, a path or a thread that the system refused, or else a
// bug.
Error error_of(const std::exception& thrown);

// Prints "bascule: LINE" on standard error.
void say(const std::string& line);

// Prints the line and, where `json`, the document. Returns the exit code.
int report_error(const Error& error, bool json) noexcept;

// Errors of one rank among several: said once, by the rank that met them, with its number, and ending all ranks with
// the same exit code. In a run of one process they pass through to main().

// Thrown where another rank has failed and says so: this one only leaves.
struct PeerFailed {};

// Calls body() and returns its exit code, once all ranks are at their end. json: an error is a document too.
int in_group(Group& group, bool json, const std::function<int()>& body);

// Calls part() on every rank, before the seal. Where it throws on any, the first of those ranks throws the error on,
// and all others PeerFailed: what fails alike on all is said once.
void agree_on(Group& group, const std::function<void()>& part);

// By all ranks together: whether it is true on any.
bool any_of(Group& group, bool own);

// --json promises one document on standard output. These keep the promise where neither a command's result nor its
// Error does: a signal or a failed check ends the program, or a run is stopped. (SIGKILL leaves no time for it.)

// In main(), where JSON is asked for. Signals that the caller ignores stay ignored.
void promise_document();
// This process is a rank of several: a signal or a check that ends it is told by the others or by their launcher, and
// an Error before they have met by rank 0 alone.
void speak_as_rank(int rank);
// Whether main() prints the document of an Error.
bool prints_errors();
// Called by a signal handler before it ends the process; prints nothing where no document is promised. Only write(2).
void write_document_of_signal(int number) noexcept;

// {"error": {...}} of a run that a signal stopped after saving, and of one whose processes ended with this exit code.
std::string document_of_stop(int signal, const std::string& what);
// how_to_resume: what_to_do of one that a signal stopped.
std::string document_of_exit_code(int code, const std::string& where, const std::string& what,
                                  const std::string& how_to_resume);

// Where what a command prints goes, and whether anybody reads it.

// Whether whoever read from the other end of a pipe or socket has closed it.
bool is_reader_gone(int descriptor);

// While it lives, what is printed to standard output goes to standard error, by processes that are started too.
class OutputToError : NonCopyable {
 public:
  OutputToError();
  ~OutputToError();

 private:
  Descriptor kept_;
};

// SIGINT, SIGTERM and SIGHUP (a terminal that closes) as a request to finish the step, save and stop.

// Installs the handlers; a signal that the caller set to ignored stays ignored. A second signal of the same kind says
// that the run ends without saving, and ends the program at once with 128 + its number; the launcher of ranks it only
// asks to, which then ends them first. Handlers run in the program's first thread, which calls this, on a stack of
// their own.
// last_words: the line of a second signal, of static storage; null: that of a run.
void catch_stop_signals(bool launches, const char* last_words = nullptr);
// From here on they wait, one that has come among them, for a program that takes the place of this one.
void leave_stop_signals();
// The signal's number once one has come, else 0.
const volatile int* stop_signal();
// In a launcher: not 0 once a second signal has come.
const volatile int* end_at_once();

// The message of a run that a signal has stopped. saved: the update that it has saved; 0: none.
std::string stopped_text(int signal, std::int64_t saved);

}  // namespace bascule
