// SPDX-License-Identifier: Apache-2.0
// bascule_state.json: what writing, finding and reading it share. The file ends with the XXH3 of all its bytes before,
// `, "xxh3": "0123456789abcdef"}` and a line break.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/files/durable_write.h"
#include "src/json/value.h"

namespace bascule {

// Format 2, which is still read, has sizes of files alone: no checksum of anything, and no `resumed_from`.
constexpr std::int64_t kOldestStateFormat = 2, kStateFormat = 3;
constexpr std::string_view kStateDigestKey = "xxh3";

// 16 hexadecimal digits. noexcept, allocates nothing.
class DigestText {
 public:
  explicit DigestText(std::uint64_t digest) noexcept;
  std::string_view text() const noexcept { return {digits_, sizeof digits_}; }

 private:
  char digits_[16];
};

// Whether a folder has a state file: then it is a checkpoint of ours. noexcept, allocates nothing.
bool holds_state(const PathBuffer& folder) noexcept;

// --- Before the seal ---

// The document at `path`. Error{kData} if it cannot be read, is damaged, or has a format that this program does not
// know.
Json read_state(const std::string& path);

}  // namespace bascule
