// SPDX-License-Identifier: Apache-2.0
// Reads one JPEG after another with libjpeg-turbo, into rows of RGBX bytes, all of it in the memory of an arena.
// Decoding is libjpeg's default: accurate integer transform, fancy upsampling, block smoothing. Only the window that is
// asked for is transformed, upsampled and coloured where libjpeg can do so without changing a sample; the compressed
// data is read to the end marker in any case, so that damage is found.
//
//   JpegReader reader;                          // before the seal: libjpeg takes some 2 KB from the system here, and
//   nothing after verdict = reader.read_header(&arena, bytes, size, limits, &stop); verdict = reader.begin(shrink,
//   window);     // reader.columns_begin(): the first column of the rows that will come verdict =
//   reader.read_rows(sink);           // calls sink.rows(...) for the rows of the window, in order reader.end(); //
//   always, also after a refusal
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/jpeg_memory.h"
#include "firmware_shims/codec/orientation.h"
#include "firmware_shims/codec/refusal.h"

namespace bascule::codec {

// Rows come in groups of this many; only the last may be smaller.
constexpr std::int64_t kRowGroup = 8;

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

class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  // False: libjpeg could not be set up; nothing else may be called.
  bool is_ready() const { return is_ready_; }

  // `bytes` must live until end(). `stop`: set by another thread to give up; the verdict then means nothing. May be
  // null.
  Verdict read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                      const std::atomic<bool>* stop) noexcept;
  // As stored.
  std::uint32_t width() const noexcept { return jpeg_.image_width; }
  std::uint32_t height() const noexcept { return jpeg_.image_height; }
  std::uint32_t orientation() const noexcept { return orientation_.orientation(); }

  // shrink: 1, 2, 4 or 8; the picture becomes ceil(width / shrink) x ceil(height / shrink) in the inverse transform.
  Verdict begin(int shrink, const Window& window) noexcept;
  std::int64_t columns_begin() const noexcept { return columns_begin_; }
  // Rows hold columns_begin() .. window.x_end at least; `kResizeSlackBytes` after them may be read.
  Verdict read_rows(const RowSink& sink) noexcept;
  void end() noexcept;

 private:
  using Step = void (JpegReader::*)();
  Verdict guarded(Step step) noexcept;
  void header_step();
  void begin_step();
  void rows_step();
  void crop_columns();
  void discard_rows(std::int64_t until);
  void deliver(std::int64_t first, std::int64_t count);
  [[noreturn]] void give_up(Verdict verdict);

  static JpegReader& reader_of(j_common_ptr cinfo) { return *static_cast<JpegReader*>(cinfo->client_data); }
  static void on_error(j_common_ptr cinfo);
  static void on_message(j_common_ptr cinfo, int level);
  static void on_output(j_common_ptr) {}
  static void on_progress(j_common_ptr cinfo);
  static boolean on_input_end(j_decompress_ptr cinfo);
  static void on_skip(j_decompress_ptr cinfo, long bytes);
  static boolean on_app1(j_decompress_ptr cinfo);
  static void on_source(j_decompress_ptr) {}

  jpeg_decompress_struct jpeg_;
  jpeg_error_mgr errors_;
  jpeg_source_mgr source_;
  jpeg_progress_mgr progress_;
  jpeg_memory_mgr* own_memory_;  // libjpeg's own manager: back in place for the destruction
  JpegMemory memory_;
  std::jmp_buf give_up_;
  Verdict verdict_;
  OrientationFinder orientation_;
  const Limits* limits_;
  const std::atomic<bool>* stop_;
  int shrink_;
  Window window_;
  const RowSink* sink_;
  bool may_skip_;
  std::int64_t columns_begin_;
  JSAMPROW group_[kRowGroup];
  std::int64_t stride_bytes_;
  bool is_ready_;
};

}  // namespace bascule::codec
