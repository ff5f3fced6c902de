// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGHUP (a terminal that closes) as a request to finish the step, save and stop.
#pragma once

#include <cstdint>
#include <string>

namespace bascule {

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
