// SPDX-License-Identifier: Apache-2.0
// Reads one still WebP after another with libwebp, lossy and lossless, whose objects live in the arena of the picture.
// Pixels are those of Pillow's `convert("RGB")`: libwebp's, alpha dropped. libwebp decodes a whole picture at once: it
// needs 3 bytes a pixel, with alpha up to 9.3, and 7 where the picture is lossless; it does not look at the stop flag.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include "firmware_shims/codec/orientation.h"
#include "firmware_shims/codec/reader.h"

namespace bascule::codec {

class WebpReader final : public PictureReader {
 public:
  Verdict read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                      const std::atomic<bool>* stop) noexcept override;
  std::uint32_t width() const noexcept override { return width_; }
  std::uint32_t height() const noexcept override { return height_; }
  std::uint32_t orientation() const noexcept override { return orientation_.orientation(); }
  int largest_shrink() const noexcept override { return 1; }
  Verdict begin(int shrink, const Window& window) noexcept override;
  std::int64_t columns_begin() const noexcept override { return 0; }
  Verdict read_rows(const RowSink& sink) noexcept override;
  void end() noexcept override {}

 private:
  Verdict find_orientation() noexcept;
  Verdict decode() noexcept;

  std::jmp_buf gives_up_;  // libwebp's memory has run out
  Arena* arena_ = nullptr;
  const std::uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;  // of the RIFF file: what is behind it is not read
  OrientationFinder orientation_;
  std::uint32_t width_ = 0, height_ = 0;
  Window window_ = {};
  std::uint8_t* rgb_ = nullptr;    // the whole picture, 3 bytes a pixel
  std::uint8_t* group_ = nullptr;  // kRowGroup rows
  std::int64_t stride_bytes_ = 0;  // of it
};

}  // namespace bascule::codec
