// SPDX-License-Identifier: Apache-2.0
// SIGINT and SIGTERM as a request to finish the step, save and stop.
#pragma once

namespace bascule {

// Installs the handlers. A second signal of the same kind ends the program at once. SIGPIPE is ignored.
void catch_stop_signals();
// The signal's number once one has come, else 0.
const volatile int* stop_signal();

}  // namespace bascule
