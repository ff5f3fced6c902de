// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/png.h"

#include <algorithm>
#include <cstring>

#include "firmware_shims/codec/png_chunks.h"
#include "kernels/resize.h"

namespace bascule::codec {
namespace {

// zlib's word for a wrong checksum of the pixels, which libpng only warns of.
constexpr char kWrongChecksum[] = "incorrect data check";
// Rows between two looks at the stop flag.
constexpr std::uint32_t kStopRows = 64;

// Ancillary chunks that libpng knows: their contents are not looked at, as nothing in them counts here.
constexpr png_byte kIgnoredChunks[] =
    "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0tEXt\0tIME\0tRNS\0zTXt";
constexpr int kIgnoredCount = static_cast<int>(sizeof kIgnoredChunks / 5);

Verdict png_verdict(media_engine_status status) { return {status, MEDIA_ENGINE_DETAIL_PNG}; }

}  // namespace

void PngReader::give_up(media_engine_status status) {
  verdict_ = png_verdict(status);
  std::longjmp(give_up_, 1);
}

void PngReader::on_error(png_structp png, png_const_charp) {
  PngReader& reader = reader_of(png);
  reader.give_up(reader.reads_pixels_ ? MEDIA_ENGINE_PICTURE_DAMAGED : MEDIA_ENGINE_PICTURE_BROKEN);
}

void PngReader::on_warning(png_structp png, png_const_charp message) {
  if (std::strstr(message, kWrongChecksum) != nullptr) reader_of(png).give_up(MEDIA_ENGINE_PICTURE_DAMAGED);
}

void PngReader::on_read(png_structp png, png_bytep to, std::size_t count) {
  PngReader& reader = reader_of(png);
  if (count > reader.bytes_left_) reader.give_up(MEDIA_ENGINE_PICTURE_TRUNCATED);
  std::memcpy(to, reader.bytes_, count);
  reader.bytes_ += count;
  reader.bytes_left_ -= count;
}

// libpng asks for its first object before it knows us by png_get_error_ptr.
void* PngReader::on_malloc(png_structp png, png_alloc_size_t bytes) {
  PngReader& reader = *static_cast<PngReader*>(png_get_mem_ptr(png));
  void* const memory = reader.arena_->take(bytes);
  if (memory == nullptr) reader.give_up(MEDIA_ENGINE_PICTURE_TOO_LARGE);
  return memory;
}

template <typename T>
T* PngReader::take(std::size_t count) {
  T* const memory = arena_->take_array<T>(count);
  if (memory == nullptr) give_up(MEDIA_ENGINE_PICTURE_TOO_LARGE);
  return memory;
}

// Everything of libpng that can fail runs inside a step: a failure ends the step with its verdict.
Verdict PngReader::guarded(Step step) noexcept {
  verdict_ = Verdict{};
  if (setjmp(give_up_) == 0) (this->*step)();
  return verdict_;
}

Verdict PngReader::read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                               const std::atomic<bool>* stop) noexcept {
  arena_ = arena;
  bytes_ = bytes;
  bytes_left_ = size;
  limits_ = &limits;
  stop_ = stop;
  reads_pixels_ = false;
  orientation_ = OrientationFinder{};
  png_ = nullptr;
  info_ = nullptr;
  width_ = height_ = 0;
  const Verdict found = find_png_orientation(&orientation_, arena, bytes, size);
  return found.ok() ? guarded(&PngReader::header_step) : found;
}

void PngReader::header_step() {
  png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this, on_malloc, on_free);
  if (png_ == nullptr) give_up(MEDIA_ENGINE_PICTURE_BROKEN);
  info_ = png_create_info_struct(png_);
  png_set_read_fn(png_, this, on_read);
  png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours come below
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnoredChunks, kIgnoredCount);
  png_set_check_for_invalid_index(png_, -1);  // black, as in Pillow
  png_read_info(png_, info_);
  width_ = png_get_image_width(png_, info_);
  height_ = png_get_image_height(png_, info_);
  verdict_ = verdict_of_header(width_, height_, 1, 1, *limits_);
  if (!verdict_.ok()) verdict_.detail = MEDIA_ENGINE_DETAIL_PNG;
}

void PngReader::choose_samples() {
  const int bits = png_get_bit_depth(png_, info_);
  const int color = png_get_color_type(png_, info_);
  if (color == PNG_COLOR_TYPE_PALETTE) {
    samples_ = Samples::kPalette;
    png_set_packing(png_);
    png_colorp colors = nullptr;
    int count = 0;
    png_get_PLTE(png_, info_, &colors, &count);
    std::memset(palette_, 0, sizeof palette_);
    for (int i = 0; i < std::min(count, 256); ++i) {
      palette_[i][0] = colors[i].red;
      palette_[i][1] = colors[i].green;
      palette_[i][2] = colors[i].blue;
    }
    return;
  }
  samples_ = (color & PNG_COLOR_MASK_COLOR) != 0 ? Samples::kRgb : Samples::kGray;
  if (color == PNG_COLOR_TYPE_GRAY && bits == 16) {
    samples_ = Samples::kGray16;
    return;
  }
  if (color == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(png_);
  if (bits == 16) png_set_strip_16(png_);
  if ((color & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png_);
}

Verdict PngReader::begin(int, const Window& window) noexcept {
  window_ = window;
  return guarded(&PngReader::begin_step);
}

void PngReader::begin_step() {
  choose_samples();
  const bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
  if (is_interlaced) (void)png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  row_bytes_ = png_get_rowbytes(png_, info_);
  samples_row_ = take<std::uint8_t>(row_bytes_ * (is_interlaced ? height_ : 1));
  const std::size_t rgbx_bytes = std::size_t{width_} * kPixelBytes + static_cast<std::size_t>(kResizeSlackBytes);
  stride_bytes_ = static_cast<std::int64_t>(arena_rounded(rgbx_bytes));
  group_ = take<std::uint8_t>(static_cast<std::size_t>(stride_bytes_ * kRowGroup));
}

Verdict PngReader::read_rows(const RowSink& sink) noexcept {
  sink_ = &sink;
  group_first_ = window_.y_begin;
  group_count_ = 0;
  reads_pixels_ = true;
  return guarded(&PngReader::rows_step);
}

void PngReader::rows_step() {
  if (png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE) {
    read_interlaced();
  } else {
    read_in_order();
  }
  png_read_end(png_, nullptr);
}

void PngReader::read_in_order() {
  for (std::uint32_t y = 0; y < height_; ++y) {
    if (y % kStopRows == 0 && stop_ != nullptr && stop_->load(std::memory_order_relaxed)) give_up(MEDIA_ENGINE_INVALID);
    png_read_row(png_, samples_row_, nullptr);
    take_row(y, samples_row_);
  }
}

// Each pass fills in pixels of rows that earlier ones have begun.
void PngReader::read_interlaced() {
  for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass) {
    for (std::uint32_t y = 0; y < height_; ++y) {
      if (y % kStopRows == 0 && stop_ != nullptr && stop_->load(std::memory_order_relaxed))
        give_up(MEDIA_ENGINE_INVALID);
      png_read_row(png_, samples_row_ + row_bytes_ * y, nullptr);
    }
  }
  for (std::int64_t y = window_.y_begin; y < window_.y_end; ++y)
    take_row(y, samples_row_ + row_bytes_ * static_cast<std::size_t>(y));
}

void PngReader::take_row(std::int64_t y, const std::uint8_t* samples) {
  if (y < window_.y_begin || y >= window_.y_end) return;
  to_rgbx(group_ + group_count_ * stride_bytes_, samples);
  ++group_count_;
  if (group_count_ < kRowGroup && y + 1 < window_.y_end) return;
  sink_->rows(sink_->context, group_, stride_bytes_, group_first_, group_count_);
  group_first_ += group_count_;
  group_count_ = 0;
}

void PngReader::to_rgbx(std::uint8_t* out, const std::uint8_t* in) const {
  const std::int64_t begin = window_.x_begin, end = window_.x_end;
  out += kPixelBytes * begin;
  for (std::int64_t x = begin; x < end; ++x, out += kPixelBytes) {
    switch (samples_) {
      case Samples::kGray: std::memset(out, in[x], 3); break;
      case Samples::kGray16: std::memset(out, in[2 * x] != 0 ? 255 : in[2 * x + 1], 3); break;
      case Samples::kPalette: std::memcpy(out, palette_[in[x]], 3); break;
      case Samples::kRgb: std::memcpy(out, in + 3 * x, 3); break;
    }
    out[3] = 0;
  }
}

// libpng's memory is released with the arena; only zlib's state is closed.
void PngReader::end() noexcept {
  if (png_ != nullptr) png_destroy_read_struct(&png_, &info_, nullptr);
  png_ = nullptr;
}

}  // namespace bascule::codec
