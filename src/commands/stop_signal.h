// SPDX-License-Identifier: Apache-2.0
// SIGINT, SIGTERM and SIGHUP (a terminal that closes) as a request to finish the step, save and stop.
#pragma once

namespace bascule {

// Installs the handlers. A second signal of the same kind ends the program at once. SIGPIPE and
// SIGXFSZ are ignored: the write that meets them returns an error.
void catch_stop_signals();
// The signal's number once one has come, else 0.
const volatile int* stop_signal();

}  // namespace bascule
