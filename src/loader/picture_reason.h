// SPDX-License-Identifier: Apache-2.0
// How the number that picture_reason() makes (media.h) is laid out, for those that tell one reason from another.
#pragma once

#include <cstdint>

namespace bascule {

inline constexpr int kReasonStatusBits = 8;  // above them a limit, marks of worker.h and details

// The media_engine_status.
constexpr std::int64_t status_of_reason(std::int64_t reason) noexcept {
  return reason & ((std::int64_t{1} << kReasonStatusBits) - 1);
}

}  // namespace bascule
