// SPDX-License-Identifier: Apache-2.0
// --json promises one document on standard output. These keep the promise where neither a command's result nor its
// Error does: a signal or a failed check ends the program, or a run is stopped. (SIGKILL leaves no time for it.)
#pragma once

#include <string>

namespace bascule {

// In main(), where JSON is asked for. Signals that the caller ignores stay ignored.
void promise_document();
// This process is a rank of several: a signal or a check that ends it is told by the others or by their launcher, and
// an Error before they have met by rank 0 alone.
void speak_as_rank(int rank);
// Whether main() prints the document of an Error.
bool prints_errors();
// What a handler of ours prints before it ends the process; nothing where no document is promised. Only write(2).
void write_document_of_signal(int number) noexcept;

// {"error": {...}} of a run that a signal stopped after saving, and of one whose processes ended with this exit code.
std::string document_of_stop(int signal, const std::string& what);
// how_to_resume: what_to_do of one that a signal stopped.
std::string document_of_exit_code(int code, const std::string& where, const std::string& what,
                                  const std::string& how_to_resume);

}  // namespace bascule
