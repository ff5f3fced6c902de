// SPDX-License-Identifier: Apache-2.0
// Status: what sealed code returns. It carries no string and allocates nothing; main() turns it into the one line.
#pragma once

#include <cstdint>

namespace bascule {

enum class StatusCode : std::int32_t {
  kOk = 0,
  kEndOfEpoch,      // no more batches in this epoch
  kBadSample,       // detail: row, reason
  kLongText,        // detail: row, tokens; the text has more than were planned for
  kReadFailed,      // detail: row, errno
  kDeviceFailed,    // detail: row, media_engine_status
  kDiskFailed,      // detail: errno, -
  kNotFinite,       // detail: step, 0 or the text of bad_vector(); the loss is NaN, infinite or without gradient
  kTextsNotFinite,  // logits of a text that is generated are NaN or infinite
  kStopped,         // a signal asked us to stop; detail: signal number
  kRankFailed,      // another rank cannot go on, and says itself why; detail: rank, -
  kNoFigure,        // detail: step, - ; an evaluation does not give the figure that says which is the best
};

struct [[nodiscard]] Status {
  StatusCode code = StatusCode::kOk;
  std::int64_t detail[2] = {0, 0};

  constexpr bool ok() const { return code == StatusCode::kOk; }
};

constexpr Status ok_status() { return Status{}; }

}  // namespace bascule

#define BASCULE_TRY(expression)                            \
  do {                                                     \
    const ::bascule::Status bascule_status = (expression); \
    if (!bascule_status.ok()) return bascule_status;       \
  } while (false)
