// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/png.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>

#include "kernels/resize.h"

namespace bascule::codec {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kChunkFrameBytes = 12;  // length, name, checksum
constexpr std::size_t kLongestKeyword = 79;
constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;  // of a compressed text; Pillow refuses longer ones
constexpr char kRawExif[] = "Raw profile type exif";
constexpr char kXmp[] = "XML:com.adobe.xmp";

struct Bytes {
  const std::uint8_t* data;
  std::size_t size;
};

std::uint32_t big_endian_u32(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

// Everything up to the first zero, which is skipped too. False: there is none.
bool take_word(Bytes* rest, Bytes* word) {
  if (rest->size == 0) return false;
  const void* const end = std::memchr(rest->data, 0, rest->size);
  if (end == nullptr) return false;
  *word = {rest->data, static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - rest->data)};
  rest->data += word->size + 1;
  rest->size -= word->size + 1;
  return true;
}

void* zlib_alloc(void* arena, unsigned int items, unsigned int size) {
  return static_cast<Arena*>(arena)->take(std::size_t{items} * size);
}
void zlib_free(void*, void*) {}

// False: the arena is full. A text that is damaged or too long becomes empty.
bool inflate_text(Arena* arena, Bytes packed, Bytes* text) {
  *text = {nullptr, 0};
  // The text takes what it needs: a stream grows by 1032 at most.
  const std::size_t most = std::min(kMostTextBytes, packed.size * 1032 + 64);
  auto* const to = arena->take_array<std::uint8_t>(most);
  if (to == nullptr) return false;
  z_stream stream = {};
  stream.zalloc = zlib_alloc;
  stream.zfree = zlib_free;
  stream.opaque = arena;
  if (inflateInit(&stream) != Z_OK) return false;
  stream.next_in = const_cast<std::uint8_t*>(packed.data);  // zlib reads it only
  stream.avail_in = static_cast<unsigned int>(packed.size);
  stream.next_out = to;
  stream.avail_out = static_cast<unsigned int>(most);
  if (inflate(&stream, Z_FINISH) == Z_STREAM_END) *text = {to, most - stream.avail_out};
  inflateEnd(&stream);
  return true;
}

int hex_digit(std::uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "\nexif\n      34\n4578...": three line breaks, then hexadecimal digits and blanks. False: the arena is full.
bool see_raw_exif(OrientationFinder* finder, Arena* arena, Bytes text) {
  for (int line = 0; line < 3; ++line) {
    const void* const end = text.size > 0 ? std::memchr(text.data, '\n', text.size) : nullptr;
    if (end == nullptr) return true;
    const auto taken = static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - text.data) + 1;
    text = {text.data + taken, text.size - taken};
  }
  auto* const body = arena->take_array<std::uint8_t>(text.size / 2 + 1);
  if (body == nullptr) return false;
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size; ++i) {
    const int digit = hex_digit(text.data[i]);
    if (digit < 0) continue;
    body[digits / 2] = static_cast<std::uint8_t>(digits % 2 == 0 ? digit << 4 : body[digits / 2] | digit);
    ++digits;
  }
  finder->see_raw_exif(body, digits / 2);
  return true;
}

bool is_word(Bytes word, const char* text) {
  return word.size == std::strlen(text) && std::memcmp(word.data, text, word.size) == 0;
}

// A tEXt, zTXt or iTXt chunk. False: the arena is full.
bool see_text(OrientationFinder* finder, Arena* arena, const std::uint8_t* name, Bytes body) {
  Bytes keyword;
  if (!take_word(&body, &keyword) || keyword.size > kLongestKeyword) return true;
  const bool is_exif = is_word(keyword, kRawExif);
  if (!is_exif && !is_word(keyword, kXmp)) return true;
  bool is_packed = false;
  if (std::memcmp(name, "zTXt", 4) == 0) {
    if (body.size < 1 || body.data[0] != 0) return true;
    is_packed = true;
    body = {body.data + 1, body.size - 1};
  } else if (std::memcmp(name, "iTXt", 4) == 0) {
    if (body.size < 2) return true;
    is_packed = body.data[0] != 0;
    if (is_packed && body.data[1] != 0) return true;
    body = {body.data + 2, body.size - 2};
    Bytes language, translated;
    if (!take_word(&body, &language) || !take_word(&body, &translated)) return true;
  }
  if (is_packed && !inflate_text(arena, body, &body)) return false;
  if (is_exif) return see_raw_exif(finder, arena, body);
  finder->see_xmp(body.data, body.size);
  return true;
}

bool is_text_chunk(const std::uint8_t* name) {
  return std::memcmp(name, "tEXt", 4) == 0 || std::memcmp(name, "zTXt", 4) == 0 || std::memcmp(name, "iTXt", 4) == 0;
}

}  // namespace

Verdict find_png_orientation(OrientationFinder* finder, Arena* arena, const std::uint8_t* bytes,
                             std::size_t size) noexcept {
  const std::size_t used_bytes = arena->used_bytes;
  for (std::size_t at = kSignatureBytes; size - at >= kChunkFrameBytes;) {
    const std::size_t length = big_endian_u32(bytes + at);
    const std::uint8_t* const name = bytes + at + 4;
    if (length > size - at - kChunkFrameBytes || std::memcmp(name, "IEND", 4) == 0) break;
    const Bytes body = {name + 4, length};
    if (std::memcmp(name, "eXIf", 4) == 0) {
      if (!finder->see_exif_chunk(body.data, body.size)) return {MEDIA_ENGINE_PICTURE_BROKEN, MEDIA_ENGINE_DETAIL_PNG};
    } else if (is_text_chunk(name)) {
      const bool fits = see_text(finder, arena, name, body);
      arena->used_bytes = used_bytes;
      if (!fits) return {MEDIA_ENGINE_PICTURE_TOO_LARGE, MEDIA_ENGINE_DETAIL_PNG};
    }
    at += kChunkFrameBytes + length;
  }
  return {};
}

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
