// SPDX-License-Identifier: Apache-2.0
// Priorities of lines on standard error that goes to systemd's journal: "<3>" in front (sd-daemon(3)). Allocates
// nothing.
#pragma once

namespace bascule {

inline constexpr char kErrorMark[] = "<3>";
// kErrorMark where standard error is the stream that $JOURNAL_STREAM names, or a pipe to the launcher of this rank,
// which knows where it goes on; else "". Lines without a mark have the unit's level, which is information.
const char* journal_error_mark() noexcept;

}  // namespace bascule
