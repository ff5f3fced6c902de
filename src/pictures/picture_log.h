// SPDX-License-Identifier: Apache-2.0
// images.jsonl: a line for every picture that a run has written. A line is on the disk when append() returns, so a run
// that is killed leaves whole lines and at most a cut one behind them, which open() removes. Each ends with a checksum
// of itself, as most of what it says cannot be told from the picture.
//
//   PictureLog log(1024, 51);                         // before the seal
//   log.seal(memory);                                 // log.bytes() of it
//   const auto rows = read_picture_log(path);         // of a run that goes on
//   log.open(path);
//   log.append({"00000.png", prompt, "", 42, 1.23, digest, 0, latents});  // sealed: allocates nothing
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/base/status.h"

namespace bascule {

inline constexpr char kPictureLogFile[] = "images.jsonl";

// {"file": "00000.png", "prompt": "...", "negative_prompt": "...", "seed": 42, "noise": 0, "seconds": 1.23,
//  "digest": "16 digits", "latents": ["16 digits", ...], "check": "16 digits"}
// check: XXH3 of the line before this member. Lines of earlier versions have none.
template <typename Text, typename Digests>
struct PictureLogLine {
  Text file;  // texts are UTF-8: read_picture_log() refuses others
  Text prompt, negative_prompt;
  std::uint64_t seed = 0;
  double seconds = 0.0;      // that drawing it took; finite
  std::uint64_t digest = 0;  // of the pixels
  std::int64_t noise = 0;    // the number of the noise under the seed
  Digests latents;           // of the noise, then of the latents after each call of the UNet
};
using PictureLogView = PictureLogLine<std::string_view, Span<const std::uint64_t>>;
using PictureLogRow = PictureLogLine<std::string, std::vector<std::uint64_t>>;

class PictureLog {
 public:
  // text_bytes: of a prompt, at most. digests: of latents, at most.
  PictureLog(std::size_t text_bytes, std::size_t digests) noexcept;

  std::size_t bytes() const noexcept { return line_bytes_; }
  // memory: bytes(); it must outlive this.
  void seal(std::byte* memory) noexcept { line_ = static_cast<char*>(static_cast<void*>(memory)); }
  // Before the seal. Creates the file, or goes on behind its last whole line. Throws Error kDisk, and kData for what
  // cannot be read.
  void open(const std::string& path);

  // After seal() and open(). One write and one sync. kDiskFailed with errno, EOVERFLOW for a line that does not fit;
  // what a failed write left of its line is removed.
  Status append(const PictureLogView& row) noexcept;

 private:
  std::size_t line_bytes_;
  char* line_ = nullptr;
  Descriptor file_;
  std::int64_t file_bytes_ = 0;
};

// The rows of whole lines; none without the file. Before the seal. Throws Error kData that names the line for one that
// is not as above, or does not have its checksum.
std::vector<PictureLogRow> read_picture_log(const std::string& path);

// The advice about a damaged line.
inline constexpr char kDamagedLineAdvice[] = "restore it, or remove the line: its picture is drawn again";

}  // namespace bascule
