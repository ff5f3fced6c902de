// SPDX-License-Identifier: Apache-2.0
// PNG: a reader of pictures over libpng, and a walk over the chunks of a file.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include <png.h>

#include "firmware_shims/codec/arena.h"
#include "firmware_shims/codec/orientation.h"
#include "firmware_shims/codec/reader.h"
#include "firmware_shims/codec/refusal.h"

namespace bascule::codec {

// The chunks of a PNG, walked without looking at their contents or checksums: what may stand behind the pixels, such as
// the orientation, must be known before the first of them. Sealed world.

// Feeds the finder with eXIf (of several the last counts), with "Raw profile type exif" and with XMP, compressed or
// not, wherever they stand, as Pillow does. A chunk that reaches past the end of the file ends the walk: the decoder
// will say so. Needs some of the arena for a compressed text, which is free again at the end. TOO_LARGE: the arena is
// full. BROKEN: an eXIf that does not begin as EXIF does, at which Pillow gives up.
Verdict find_png_orientation(OrientationFinder* finder, Arena* arena, const std::uint8_t* bytes,
                             std::size_t size) noexcept;

// Reads one PNG after another with libpng, whose objects live in the arena of the picture. Pixels are those of Pillow's
// `convert("RGB")`: samples of 1, 2 and 4 bits are spread to 8, those of 16 bits are cut to their high byte, gray ones
// at 255; alpha, transparent colours, gamma and all other ancillary chunks are ignored, but their checksums are not.
// Include before setjmp.h of others; png.h stays within codec/.

class PngReader final : public PictureReader {
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
  void end() noexcept override;

 private:
  enum class Samples { kGray, kGray16, kPalette, kRgb };  // of the rows that libpng gives

  using Step = void (PngReader::*)();
  Verdict guarded(Step step) noexcept;
  void header_step();
  void begin_step();
  void rows_step();
  void choose_samples();
  void read_interlaced();
  void read_in_order();
  // Takes a row of the window: `samples` is row y as libpng gives it.
  void take_row(std::int64_t y, const std::uint8_t* samples);
  void to_rgbx(std::uint8_t* out, const std::uint8_t* in) const;
  [[noreturn]] void give_up(media_engine_status status);
  template <typename T>
  T* take(std::size_t count);

  static PngReader& reader_of(png_structp png) { return *static_cast<PngReader*>(png_get_error_ptr(png)); }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message);
  static void on_warning(png_structp png, png_const_charp message);
  static void on_read(png_structp png, png_bytep to, std::size_t count);
  static void* on_malloc(png_structp png, png_alloc_size_t bytes);
  static void on_free(png_structp, void*) {}

  Arena* arena_ = nullptr;
  const std::uint8_t* bytes_ = nullptr;
  std::size_t bytes_left_ = 0;
  const Limits* limits_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  std::jmp_buf give_up_;
  Verdict verdict_;
  bool reads_pixels_ = false;  // what is wrong now is wrong with the data
  OrientationFinder orientation_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::uint32_t width_ = 0, height_ = 0;
  Samples samples_ = Samples::kRgb;
  std::uint8_t palette_[256][3] = {};  // black where the file has fewer colours
  Window window_ = {};
  std::size_t row_bytes_ = 0;            // as libpng gives them
  std::uint8_t* samples_row_ = nullptr;  // one row, or all of an interlaced picture
  std::uint8_t* group_ = nullptr;        // kRowGroup rows
  std::int64_t stride_bytes_ = 0;        // of it
  std::int64_t group_first_ = 0, group_count_ = 0;
  const RowSink* sink_ = nullptr;
};

}  // namespace bascule::codec
