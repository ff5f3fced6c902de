// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/png_file.h"

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <png.h>
#include <zlib.h>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/files/durable_write.h"

namespace bascule {
namespace {

constexpr int kCompressionLevel = 6;
constexpr std::int64_t kMostSide = 65535;
constexpr std::size_t kMostKey = 79;
constexpr std::size_t kDataBytes = 8192;  // of pixels in a chunk: libpng's usual number
constexpr std::size_t kChunkBytes = 12;   // of a chunk beside its data: length, type, checksum
constexpr std::size_t kHeaderBytes = 13;
constexpr std::size_t kSignatureBytes = 8;
constexpr char kZeros[5] = {};  // between key and value of iTXt: key's end, not packed, no method, language, other key
constexpr std::size_t kPoolUnit = alignof(std::max_align_t);

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_key(std::string_view key) {
  const auto is_letter = [](char c) { return c > ' ' && c <= '~'; };
  if (key.empty() || key.size() > kMostKey || key.find("  ") != std::string_view::npos) return false;
  return is_letter(key.front()) && is_letter(key.back()) &&
         std::all_of(key.begin(), key.end(), [&](char c) { return is_letter(c) || c == ' '; });
}

bool has_size(std::int64_t width, std::int64_t height) {
  return std::min(width, height) >= 1 && std::max(width, height) <= kMostSide;
}

Status out_of_room(int error) noexcept { return {StatusCode::kDiskFailed, {error, 0}}; }

// Where libpng takes its memory from, and zlib through it. libpng treats nullptr as an error.
struct LibraryMemory {
  png_malloc_ptr take;
  png_free_ptr give_back;
  void* context;
};

// Gives the next bytes, takes none back.
struct Pool {
  std::byte* memory;
  std::size_t bytes;  // a multiple of kPoolUnit
  std::size_t used = 0;

  LibraryMemory functions() noexcept { return {take, keep, this}; }
  static void* take(png_structp png, png_alloc_size_t bytes) noexcept {
    Pool& pool = *static_cast<Pool*>(png_get_mem_ptr(png));
    if (bytes > pool.bytes - pool.used) return nullptr;
    std::byte* const taken = pool.memory + pool.used;
    pool.used += align_up(bytes, kPoolUnit);
    return taken;
  }
  static void keep(png_structp, png_voidp) noexcept {}
};

// Counts what a pool would give, and takes it from the heap.
struct CountedHeap {
  std::size_t taken = 0;

  LibraryMemory functions() noexcept { return {take, give_back, this}; }
  static void* take(png_structp png, png_alloc_size_t bytes) noexcept {
    static_cast<CountedHeap*>(png_get_mem_ptr(png))->taken += align_up(bytes, kPoolUnit);
    return std::malloc(bytes);
  }
  static void give_back(png_structp, png_voidp memory) noexcept { std::free(memory); }
};

// One file. libpng reports a failure by a jump over the frames of its own functions, so steps() has nothing to destroy.
class Encoding : NonCopyable {
 public:
  Encoding(const LibraryMemory& memory, Span<char> file, const RgbPicture& picture) noexcept
      : memory_(memory), file_(file), picture_(picture) {}
  ~Encoding() { png_destroy_write_struct(&png_, &info_); }

  Status run(Span<const PngTextView> texts, std::size_t text_bytes) noexcept {
    if (setjmp(give_up_) != 0) return status_;
    begin();
    for (const PngTextView& text : texts) write_text(text.key, text.value.substr(0, utf8_cut(text.value, text_bytes)));
    for (std::int64_t y = 0; y < picture_.height; ++y) write_row(y);
    png_write_end(png_, info_);
    return ok_status();
  }
  // As far as to the first row: from there on libpng and zlib have all their memory.
  Status run_first_row() noexcept {
    if (setjmp(give_up_) != 0) return status_;
    begin();
    write_row(0);
    return ok_status();
  }
  std::string_view file() const noexcept { return {file_.data(), written_}; }

 private:
  [[noreturn]] void give_up(int error) noexcept {
    status_ = out_of_room(error);
    std::longjmp(give_up_, 1);
  }
  // Sizes and keys are checked, so that memory is all that libpng can lack.
  [[noreturn]] static void on_error(png_structp png, png_const_charp) {
    static_cast<Encoding*>(png_get_error_ptr(png))->give_up(ENOMEM);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_write(png_structp png, png_bytep bytes, std::size_t count) {
    Encoding& encoding = *static_cast<Encoding*>(png_get_io_ptr(png));
    if (count > encoding.file_.size() - encoding.written_) encoding.give_up(EOVERFLOW);
    std::memcpy(encoding.file_.data() + encoding.written_, bytes, count);
    encoding.written_ += count;
  }
  static void on_flush(png_structp) {}

  void begin() {
    png_ = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, memory_.context, memory_.take,
                                     memory_.give_back);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) give_up(ENOMEM);
    png_set_write_fn(png_, this, on_write, on_flush);
    png_set_filter(png_, PNG_FILTER_TYPE_BASE, PNG_FILTER_PAETH);
    png_set_compression_level(png_, kCompressionLevel);
    png_set_compression_strategy(png_, Z_FILTERED);
    png_set_compression_buffer_size(png_, kDataBytes);
    const auto width = static_cast<png_uint_32>(picture_.width), height = static_cast<png_uint_32>(picture_.height);
    png_set_IHDR(png_, info_, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
  }
  // By chunk, as png_set_text() would copy the text.
  void write_text(std::string_view key, std::string_view value) {
    const bool is_latin = is_ascii(value);
    const std::size_t zeros = is_latin ? 1 : sizeof kZeros;
    const char* const type = is_latin ? "tEXt" : "iTXt";
    png_write_chunk_start(png_, bytes_of(type), static_cast<png_uint_32>(key.size() + zeros + value.size()));
    png_write_chunk_data(png_, bytes_of(key.data()), key.size());
    png_write_chunk_data(png_, bytes_of(kZeros), zeros);
    png_write_chunk_data(png_, bytes_of(value.data()), value.size());
    png_write_chunk_end(png_);
  }
  void write_row(std::int64_t y) { png_write_row(png_, picture_.pixels + 3 * picture_.width * y); }
  static png_const_bytep bytes_of(const char* text) {
    return static_cast<png_const_bytep>(static_cast<const void*>(text));
  }

  const LibraryMemory memory_;
  const Span<char> file_;
  const RgbPicture picture_;
  std::size_t written_ = 0;
  Status status_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf give_up_;
};

// A smaller picture takes no more: rows are shorter, zlib's window is the same or smaller.
std::size_t measured_library_bytes(std::int64_t width, std::int64_t height) {
  const std::vector<std::uint8_t> row(static_cast<std::size_t>(3 * width));
  std::vector<char> file(2 * kDataBytes);  // a black row is packed to a few hundred bytes
  CountedHeap heap;
  Encoding encoding(heap.functions(), file, {row.data(), width, height});
  if (!encoding.run_first_row().ok())
    throw Error(ErrorKind::kMemory, "PNG", "libpng got no memory for a picture", "free some memory");
  return heap.taken;
}

std::size_t most_file_bytes(const PngLimits& limits) {
  const auto rows = static_cast<std::size_t>(limits.height * (3 * limits.width + 1));  // each with its filter
  // compressBound() is zlib's promise for its largest window. For pictures of up to 16 KiB libpng chooses smaller ones,
  // and deflateBound() then promises only this.
  const std::size_t small = std::min(rows, std::size_t{16384});
  const std::size_t packed = compressBound(rows) + divide_up<std::size_t>(small, 8) + divide_up<std::size_t>(small, 64);
  const std::size_t text = kChunkBytes + kMostKey + sizeof kZeros + limits.text_bytes;
  return kSignatureBytes + kChunkBytes + kHeaderBytes + limits.texts * text + packed +
         divide_up(packed, kDataBytes) * kChunkBytes + kChunkBytes;
}

}  // namespace

void check_png_text(const PngTextView& text) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorKind::kData, "PNG text \"" + std::string(text.key) + "\"", what);
  };
  if (first_invalid_utf8(text.value) != text.value.size()) refuse("is not UTF-8");
  if (text.value.find('\0') != std::string_view::npos) refuse("has a byte 0");
}

PngWriter::PngWriter(const PngLimits& limits) : text_bytes_(limits.text_bytes) {
  BASCULE_CHECK(has_size(limits.width, limits.height));
  library_bytes_ = measured_library_bytes(limits.width, limits.height);
  file_bytes_ = most_file_bytes(limits);
}

Status PngWriter::encode(const RgbPicture& picture, Span<const PngTextView> texts, std::string_view* file) noexcept {
  BASCULE_CHECK(has_size(picture.width, picture.height));
  for (const PngTextView& text : texts) BASCULE_CHECK(is_key(text.key));  // a key is ours, a value may be a user's
  Pool pool{memory_, library_bytes_};
  char* const behind = static_cast<char*>(static_cast<void*>(memory_ + library_bytes_));
  Encoding encoding(pool.functions(), {behind, file_bytes_}, picture);
  BASCULE_TRY(encoding.run(texts, text_bytes_));
  *file = encoding.file();
  return ok_status();
}

Status PngWriter::write(const char* folder, std::string_view name, const RgbPicture& picture,
                        Span<const PngTextView> texts) noexcept {
  std::string_view file;
  BASCULE_TRY(encode(picture, texts, &file));
  return write_durably(folder, name, file);
}

namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n", kEndType = "IEND";

std::uint32_t number_at(std::string_view bytes, std::size_t at) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

// Chunks up to its last byte, each with its checksum. libpng itself reads none behind the last row.
bool has_checksums(std::string_view file) noexcept {
  if (file.substr(0, kSignature.size()) != kSignature) return false;
  for (std::size_t at = kSignature.size(), left = file.size() - at; left >= 12; left = file.size() - at) {
    const std::size_t length = number_at(file, at);
    if (length > left - 12) return false;
    const std::string_view summed = file.substr(at + 4, length + 4);
    const auto* const bytes = static_cast<const Bytef*>(static_cast<const void*>(summed.data()));
    if (crc32(0, bytes, static_cast<uInt>(summed.size())) != number_at(file, at + 8 + length)) return false;
    at += length + 12;
    if (summed == kEndType) return at == file.size();
  }
  return false;
}

}  // namespace

std::vector<std::uint8_t> png_pixels(std::string_view file, std::int64_t width, std::int64_t height) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  if (!has_checksums(file) || png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) return {};
  std::vector<std::uint8_t> pixels;
  if (image.width == width && image.height == height && image.format == PNG_FORMAT_RGB) {
    pixels.resize(static_cast<std::size_t>(3 * width * height));
    if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) pixels.clear();
  }
  png_image_free(&image);
  return pixels;
}

std::string png_content(const RgbPicture& picture, const std::vector<NamedText>& texts) {
  std::vector<PngTextView> views;
  std::size_t longest = 0;
  for (const NamedText& text : texts) {
    views.push_back({text.name, text.value});
    check_png_text(views.back());
    longest = std::max(longest, text.value.size());
  }
  PngWriter writer({picture.width, picture.height, texts.size(), longest});
  const std::unique_ptr<std::byte[]> memory(new std::byte[writer.bytes()]);
  writer.seal(memory.get());
  std::string_view file;
  const Status status = writer.encode(picture, views, &file);
  BASCULE_CHECK(status.ok());  // its limits are this picture's
  return std::string(file);
}

void write_png(const std::string& path, const RgbPicture& picture, const std::vector<NamedText>& texts) {
  write_output_file(path, png_content(picture, texts));
}

}  // namespace bascule
