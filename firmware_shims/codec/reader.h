// SPDX-License-Identifier: Apache-2.0
// The common part of the readers of all formats: one picture after another becomes rows of RGBX bytes, all of it in
// the memory of an arena. Compressed data is read to its end, also where pixels are skipped, so that damage is found.
//
//   verdict = reader.read_header(&arena, bytes, size, limits, &stop);
//   verdict = reader.begin(shrink, window);  // reader.columns_begin(): the first column of the rows that will come
//   verdict = reader.read_rows(sink);        // calls sink.rows(...) for the rows of the window, in order
//   reader.end();                            // always, also after a refusal
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/refusal.h"

namespace bascule::codec {

// Rows come in groups of this many; only the last may be smaller.
constexpr std::int64_t kRowGroup = 8;
constexpr std::int64_t kPixelBytes = 4;  // RGBX

// Columns and rows as the decoder gives them (stored, after `shrink`): first and one past the last.
struct Window {
  std::int64_t x_begin, x_end;
  std::int64_t y_begin, y_end;
};

// Takes `count` rows from `first` on (a row number of the window's coordinates); valid during the call only.
struct RowSink {
  void* context;
  void (*rows)(void* context, const std::uint8_t* data, std::int64_t stride_bytes, std::int64_t first,
               std::int64_t count);
};

class PictureReader {
 public:
  PictureReader() = default;
  PictureReader(const PictureReader&) = delete;
  PictureReader& operator=(const PictureReader&) = delete;

  // `bytes` must live until end(). `stop`: set by another thread to give up; the verdict then means nothing. May be
  // null.
  virtual Verdict read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                              const std::atomic<bool>* stop) noexcept = 0;
  // As stored; 0 where the header was not understood.
  virtual std::uint32_t width() const noexcept = 0;
  virtual std::uint32_t height() const noexcept = 0;
  virtual std::uint32_t orientation() const noexcept = 0;  // 1..8

  // The most that begin() takes as `shrink`, a power of two.
  virtual int largest_shrink() const noexcept = 0;
  // The picture becomes ceil(width / shrink) x ceil(height / shrink).
  virtual Verdict begin(int shrink, const Window& window) noexcept = 0;
  virtual std::int64_t columns_begin() const noexcept = 0;
  // Rows hold columns_begin() .. window.x_end at least; `kResizeSlackBytes` after them may be read.
  virtual Verdict read_rows(const RowSink& sink) noexcept = 0;
  virtual void end() noexcept = 0;

 protected:
  ~PictureReader() = default;
};

}  // namespace bascule::codec
