// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/png_file.h"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <string_view>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/files/durable_write.h"

namespace bascule {
namespace {

constexpr int kCompressionLevel = 6;
constexpr std::int64_t kMostSide = 65535;
constexpr std::size_t kMostKey = 79;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_key(std::string_view key) {
  const auto is_letter = [](char c) { return c > ' ' && c <= '~'; };
  if (key.empty() || key.size() > kMostKey || key.find("  ") != std::string_view::npos) return false;
  return is_letter(key.front()) && is_letter(key.back()) &&
         std::all_of(key.begin(), key.end(), [&](char c) { return is_letter(c) || c == ' '; });
}

void check_text(const PngText& text) {
  BASCULE_CHECK(is_key(text.key));  // a key is ours, a value may be a user's
  const auto refuse = [&](const char* what) { throw Error(ErrorKind::kData, "PNG text \"" + text.key + "\"", what); };
  if (first_invalid_utf8(text.value) != text.value.size()) refuse("is not UTF-8");
  if (text.value.find('\0') != std::string::npos) refuse("has a byte 0");
}

// libpng reports a failure by a jump over the frames of its own functions, so steps() has nothing to destroy.
class PngWriter {
 public:
  PngWriter(std::string* file, const RgbPicture& picture, const std::vector<PngText>& texts)
      : file_(file), picture_(picture) {
    for (const PngText& text : texts) texts_.push_back(libpng_text(text));
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  bool write() noexcept {
    if (setjmp(give_up_) != 0) return false;
    steps();
    return true;
  }

 private:
  static png_text libpng_text(const PngText& text) {
    png_text one{};
    one.compression = is_ascii(text.value) ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
    one.key = const_cast<png_charp>(text.key.c_str());  // libpng copies both
    one.text = const_cast<png_charp>(text.value.c_str());
    one.text_length = text.value.size();
    return one;
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp) {
    std::longjmp(static_cast<PngWriter*>(png_get_error_ptr(png))->give_up_, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_write(png_structp png, png_bytep bytes, std::size_t count) noexcept {
    const char* const from = static_cast<const char*>(static_cast<const void*>(bytes));
    static_cast<PngWriter*>(png_get_io_ptr(png))->file_->append(from, count);
  }
  static void on_flush(png_structp) {}

  void steps() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ == nullptr) std::longjmp(give_up_, 1);
    info_ = png_create_info_struct(png_);
    png_set_write_fn(png_, this, on_write, on_flush);
    png_set_filter(png_, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
    png_set_compression_level(png_, kCompressionLevel);
    png_set_compression_strategy(png_, Z_FILTERED);
    const auto width = static_cast<png_uint_32>(picture_.width), height = static_cast<png_uint_32>(picture_.height);
    png_set_IHDR(png_, info_, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (!texts_.empty()) png_set_text(png_, info_, texts_.data(), static_cast<int>(texts_.size()));
    png_write_info(png_, info_);
    for (std::int64_t y = 0; y < picture_.height; ++y) png_write_row(png_, picture_.pixels + 3 * picture_.width * y);
    png_write_end(png_, info_);
  }

  std::string* const file_;
  const RgbPicture picture_;
  std::vector<png_text> texts_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf give_up_;
};

}  // namespace

std::string png_content(const RgbPicture& picture, const std::vector<PngText>& texts) {
  BASCULE_CHECK(std::min(picture.width, picture.height) >= 1 && std::max(picture.width, picture.height) <= kMostSide);
  for (const PngText& text : texts) check_text(text);
  std::string file;
  if (!PngWriter(&file, picture, texts).write())
    throw Error(ErrorKind::kMemory, "PNG", "libpng got no memory for a picture", "free some memory");
  return file;
}

void write_png(const std::string& path, const RgbPicture& picture, const std::vector<PngText>& texts) {
  write_output_file(path, png_content(picture, texts));
}

}  // namespace bascule
