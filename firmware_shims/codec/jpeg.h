// SPDX-License-Identifier: Apache-2.0
// JPEG: a reader of pictures over libjpeg-turbo, and the memory manager that keeps libjpeg within a picture's arena.
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/orientation.h"
#include "firmware_shims/codec/reader.h"
#include "firmware_shims/codec/refusal.h"

namespace bascule::codec {

// libjpeg's memory manager, ours: everything it asks for while it works on a picture comes out of that picture's arena.
// Nothing is given back before the next picture; virtual arrays are whole in memory. Does not fit: error_exit with
// JERR_OUT_OF_MEMORY. Include after <cstdio>; jpeglib.h stays within codec/.

struct JpegMemory {
  jpeg_memory_mgr methods;  // first: libjpeg's pointer to it is a pointer to this
  Arena* arena;
  jvirt_sarray_control* sample_arrays;
  jvirt_barray_control* block_arrays;
};

// Fills `methods`. The arena is set before each picture.
void init_jpeg_memory(JpegMemory* memory) noexcept;

// Before a picture.
void reset_jpeg_memory(JpegMemory* memory, Arena* arena) noexcept;

// Reads one JPEG after another with libjpeg-turbo. Decoding is libjpeg's default: accurate integer transform, fancy
// upsampling, block smoothing. Only the window that is asked for is transformed, upsampled and coloured where libjpeg
// can do so without changing a sample.

class JpegReader final : public PictureReader {
 public:
  // Before the seal: libjpeg takes some 2 KB from the system here, and nothing after.
  JpegReader();
  ~JpegReader();
  // False: libjpeg could not be set up; nothing else may be called.
  bool is_ready() const { return is_ready_; }

  Verdict read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                      const std::atomic<bool>* stop) noexcept override;
  std::uint32_t width() const noexcept override { return jpeg_.image_width; }
  std::uint32_t height() const noexcept override { return jpeg_.image_height; }
  std::uint32_t orientation() const noexcept override { return orientation_.orientation(); }
  int largest_shrink() const noexcept override { return 8; }  // in the inverse transform
  Verdict begin(int shrink, const Window& window) noexcept override;
  std::int64_t columns_begin() const noexcept override { return columns_begin_; }
  Verdict read_rows(const RowSink& sink) noexcept override;
  void end() noexcept override;

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
  bool skipped_before_restart_;  // the last message warned of bytes before a restart marker
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
