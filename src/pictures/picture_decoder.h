// SPDX-License-Identifier: Apache-2.0
// Pictures decoded one at a time, the options of the media engine, pictures as bytes, and small copies.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/base/picture_fit.h"
#include "src/loader/media.h"
#include "src/settings/settings.h"

namespace bascule {

// [media_engine.simulation] as the options of the engine that this program was built with.

// Words as in media_engine_config::options; "" where the table is missing. Throws Error (kSettings, with line and
// column) where the engine has no simulated device, or does not know a fault.
std::string media_options(const SimulationSettings& simulation, const SettingsOrigin& origin,
                          const media_engine_driver* engine);

// Picture files that are read and decoded one at a time, outside a loader. Where nothing else is said: not for the
// sealed phase, allocates, throws Error.

// "data/shard-003.tar" of "data/shard-003.tar/000017.jpg", the name of a picture in a shard; "" for others.
std::string shard_of_picture(const std::string& path);

// A file, or a picture in a shard. Throws Error kData.
std::vector<std::uint8_t> read_picture_file(const std::string& path);

// [media_engine]'s defaults, with the engine that this program was built with.
MediaSettings default_media_settings();

// The same with what a model folder's processor says.
MediaSettings media_settings_of(const std::string& model_folder, Preprocessing preprocessing, std::int64_t image_side,
                                const std::string& image_processor, PictureFit fit);

class PictureDecoder {
 public:
  explicit PictureDecoder(const MediaSettings& settings, bool raw = false);  // raw: 0..255, not normalised
  // In memory of memory_bytes(), 64-byte aligned, that outlives this.
  PictureDecoder(const MediaSettings& settings, Span<std::byte> memory);
  static std::size_t memory_bytes(const MediaSettings& settings);

  struct Size {
    std::int64_t width = 0, height = 0;  // upright; 0 where unknown
  };
  // (3, side, side) floats. Returns an empty text, or why the picture is refused. Throws Error kData if the device is
  // bad. size may be null.
  std::string decode(const std::string& path, float* pixels, Size* size);
  // The same of a file's bytes. After the seal: allocates nothing. The status is that of the picture, or the device's.
  media_engine_status decode(Span<const std::uint8_t> encoded, float* pixels,
                             media_engine_completion* completion) noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;  // the engine's: released after it
  std::unique_ptr<Media> media_;
  bool raw_ = false;
};

// Small square copies of pictures, for pages, as PNG. Not for the sealed phase: allocates, throws Error.

inline constexpr std::int64_t kThumbnailSide = 48;

// kMiddle: the square in the middle. kSqueezed: the whole picture, for a page that shows it in its own proportions.
enum class CopyKind { kMiddle, kSqueezed };

class ThumbnailMaker {
 public:
  explicit ThumbnailMaker(std::int64_t side = kThumbnailSide, CopyKind kind = CopyKind::kMiddle);
  // The thumbnail of a file, or of a picture in a shard; at most 8 KB with kThumbnailSide. Empty where it cannot be
  // read or is refused. Throws Error kData where the media engine fails. size: of the picture; may be null.
  std::vector<std::uint8_t> make(const std::string& path, PictureDecoder::Size* size = nullptr);

 private:
  const std::int64_t side_;
  PictureDecoder decoder_;
  std::vector<float> pixels_;  // (3, side, side), 0 to 255
};

}  // namespace bascule
