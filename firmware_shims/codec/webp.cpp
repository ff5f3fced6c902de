// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/webp.h"

#include <algorithm>
#include <cstring>

#include <webp/decode.h>

#include "kernels/resize.h"

namespace bascule::codec {
namespace {

// libwebp's memory, ours: what it asks for while it works on a picture comes out of that picture's arena. libwebp takes
// no memory manager, but calls its own WebPSafeMalloc, WebPSafeCalloc and WebPSafeFree as any program may: through the
// dynamic symbol table. This program defines the three, so the loader binds libwebp's calls to them. A thread that has
// no scope open gets no memory.
//
// libwebp 1.2 crashes at some places where it gets no memory. So it is never told: a jump leaves libwebp, and its
// memory stays in the arena. Sealed world.

// While it lives, libwebp in this thread takes memory from `arena`, and gives none back. If there is too little, it
// jumps to `gives_up`. One for each thread.
class WebpMemory {
 public:
  WebpMemory(Arena* arena, std::jmp_buf* gives_up) noexcept;
  ~WebpMemory();
  WebpMemory(const WebpMemory&) = delete;
  WebpMemory& operator=(const WebpMemory&) = delete;

  // `count` times `bytes` bytes. Does not return if there is too little.
  void* take(std::uint64_t count, std::size_t bytes) noexcept;

 private:
  Arena* arena_;
  std::jmp_buf* gives_up_;
};

thread_local WebpMemory* memory_of_thread = nullptr;

WebpMemory::WebpMemory(Arena* arena, std::jmp_buf* gives_up) noexcept : arena_(arena), gives_up_(gives_up) {
  memory_of_thread = this;
}

WebpMemory::~WebpMemory() { memory_of_thread = nullptr; }

void* WebpMemory::take(std::uint64_t count, std::size_t bytes) noexcept {
  std::size_t total = 0;
  void* const memory = __builtin_mul_overflow(count, bytes, &total) ? nullptr : arena_->take(total);
  if (memory == nullptr) std::longjmp(*gives_up_, 1);
  return memory;
}

constexpr std::size_t kRiffHeaderBytes = 12;    // "RIFF", size, "WEBP"
constexpr std::size_t kChunkHeaderBytes = 8;    // name, size
constexpr std::size_t kExtendedHeaderEnd = 30;  // of the VP8X chunk, which is the first
constexpr std::uint8_t kHasExif = 0x08, kHasXmp = 0x04;
constexpr std::size_t kRgbBytes = 3;

Verdict webp_verdict(media_engine_status status) { return {status, MEDIA_ENGINE_DETAIL_WEBP}; }

std::size_t little_endian_u32(const std::uint8_t* at) {
  return std::size_t{at[3]} << 24 | std::size_t{at[2]} << 16 | std::size_t{at[1]} << 8 | at[0];
}

bool is_chunk(const std::uint8_t* chunk, const char* name) { return std::memcmp(chunk, name, 4) == 0; }

}  // namespace

// A file that is shorter than its header says is cut off, also where only metadata is missing.
Verdict WebpReader::read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                                const std::atomic<bool>*) noexcept {
  arena_ = arena;
  bytes_ = bytes;
  width_ = height_ = 0;
  orientation_ = OrientationFinder{};
  if (size < kRiffHeaderBytes + kChunkHeaderBytes) return webp_verdict(MEDIA_ENGINE_PICTURE_TRUNCATED);
  size_ = little_endian_u32(bytes + 4) + kChunkHeaderBytes;
  if (size_ > size) return webp_verdict(MEDIA_ENGINE_PICTURE_TRUNCATED);
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(bytes_, size_, &features);
  if (status == VP8_STATUS_NOT_ENOUGH_DATA) return webp_verdict(MEDIA_ENGINE_PICTURE_TRUNCATED);
  if (status != VP8_STATUS_OK) return webp_verdict(MEDIA_ENGINE_PICTURE_BROKEN);
  const Verdict found = find_orientation();
  if (!found.ok()) return found;
  width_ = static_cast<std::uint32_t>(features.width);
  height_ = static_cast<std::uint32_t>(features.height);
  Verdict verdict = verdict_of_header(width_, height_, 1, 1, limits);
  if (!verdict.ok()) verdict.detail = MEDIA_ENGINE_DETAIL_WEBP;
  return verdict;
}

// The first EXIF and the first XMP chunk count, where the header announces them.
Verdict WebpReader::find_orientation() noexcept {
  if (!is_chunk(bytes_ + kRiffHeaderBytes, "VP8X") || size_ < kExtendedHeaderEnd) return {};
  const std::uint8_t flags = bytes_[kRiffHeaderBytes + kChunkHeaderBytes];
  bool seeks_exif = (flags & kHasExif) != 0, seeks_xmp = (flags & kHasXmp) != 0;
  for (std::size_t at = kExtendedHeaderEnd; at < size_ && size_ - at >= kChunkHeaderBytes;) {
    const std::uint8_t* const chunk = bytes_ + at;
    const std::uint8_t* const body = chunk + kChunkHeaderBytes;
    const std::size_t length = little_endian_u32(chunk + 4);
    if (length > size_ - at - kChunkHeaderBytes) return webp_verdict(MEDIA_ENGINE_PICTURE_TRUNCATED);
    if (seeks_exif && is_chunk(chunk, "EXIF")) {
      if (!orientation_.see_exif_chunk(body, length)) return webp_verdict(MEDIA_ENGINE_PICTURE_BROKEN);
      seeks_exif = false;
    } else if (seeks_xmp && is_chunk(chunk, "XMP ")) {
      orientation_.see_xmp(body, length);
      seeks_xmp = false;
    }
    at += kChunkHeaderBytes + length + length % 2;
  }
  return {};
}

Verdict WebpReader::begin(int, const Window& window) noexcept {
  window_ = window;
  rgb_ = arena_->take_array<std::uint8_t>(kRgbBytes * width_ * height_);
  const std::size_t rgbx_bytes = std::size_t{width_} * kPixelBytes + static_cast<std::size_t>(kResizeSlackBytes);
  stride_bytes_ = static_cast<std::int64_t>(arena_rounded(rgbx_bytes));
  group_ = arena_->take_array<std::uint8_t>(static_cast<std::size_t>(stride_bytes_ * kRowGroup));
  return rgb_ == nullptr || group_ == nullptr ? webp_verdict(MEDIA_ENGINE_PICTURE_TOO_LARGE) : Verdict{};
}

Verdict WebpReader::decode() noexcept {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return webp_verdict(MEDIA_ENGINE_PICTURE_BROKEN);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = rgb_;
  config.output.u.RGBA.stride = static_cast<int>(kRgbBytes * width_);
  config.output.u.RGBA.size = kRgbBytes * width_ * height_;
  const WebpMemory memory(arena_, &gives_up_);
  if (setjmp(gives_up_) != 0) return webp_verdict(MEDIA_ENGINE_PICTURE_TOO_LARGE);
  switch (WebPDecode(bytes_, size_, &config)) {
    case VP8_STATUS_OK: return {};
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return webp_verdict(MEDIA_ENGINE_PICTURE_TRUNCATED);
    default: return webp_verdict(MEDIA_ENGINE_PICTURE_DAMAGED);
  }
}

Verdict WebpReader::read_rows(const RowSink& sink) noexcept {
  const Verdict decoded = decode();
  if (!decoded.ok()) return decoded;
  for (std::int64_t first = window_.y_begin; first < window_.y_end; first += kRowGroup) {
    const std::int64_t count = std::min(kRowGroup, window_.y_end - first);
    for (std::int64_t r = 0; r < count; ++r) {
      const std::uint8_t* in = rgb_ + kRgbBytes * static_cast<std::size_t>((first + r) * width_ + window_.x_begin);
      std::uint8_t* out = group_ + r * stride_bytes_ + kPixelBytes * window_.x_begin;
      for (std::int64_t x = window_.x_begin; x < window_.x_end; ++x, in += kRgbBytes, out += kPixelBytes) {
        std::memcpy(out, in, kRgbBytes);
        out[3] = 0;
      }
    }
    sink.rows(sink.context, group_, stride_bytes_, first, count);
  }
  return {};
}

}  // namespace bascule::codec

extern "C" {
void* WebPSafeMalloc(std::uint64_t count, std::size_t bytes);
void* WebPSafeCalloc(std::uint64_t count, std::size_t bytes);
void WebPSafeFree(void* memory);

void* WebPSafeMalloc(std::uint64_t count, std::size_t bytes) {
  using bascule::codec::memory_of_thread;
  return memory_of_thread == nullptr ? nullptr : memory_of_thread->take(count, bytes);
}

void* WebPSafeCalloc(std::uint64_t count, std::size_t bytes) {
  void* const memory = WebPSafeMalloc(count, bytes);
  if (memory != nullptr) std::memset(memory, 0, count * bytes);
  return memory;
}

void WebPSafeFree(void*) {}
}
