// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/span.h"
#include "src/files/input_file.h"
#include "src/index/tar_reader.h"
#include "src/pictures/png_file.h"
#include "src/pictures/preprocessor.h"

namespace bascule {
namespace {

constexpr const char kTable[] = "media_engine.simulation";

void add(std::string* options, const SettingsOrigin& origin, const media_engine_driver* engine, const std::string& key,
         const std::string& word) {
  const char* const problem = media_engine_option_problem(engine, word.c_str());
  if (problem != nullptr) {
    const std::string name = std::string(kTable) + "." + key;
    throw Error{ErrorKind::kSettings, where_written(origin, name),
                name + ": \"" + word.substr(word.find('=') + 1) + "\" is invalid", problem};
  }
  *options += (options->empty() ? "" : " ") + word;
}

std::string number_word(const char* name, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%s=%.17g", name, value);
  return text;
}

}  // namespace

std::string media_options(const SimulationSettings& simulation, const SettingsOrigin& origin,
                          const media_engine_driver* engine) {
  if (!simulation.is_given) return "";
  const std::string name = media_engine_query(engine).name;
  if (name != "hpu_sim") {
    throw Error{ErrorKind::kSettings, where_written(origin, kTable),
                "[media_engine.simulation] is set, but this program was built with the media engine \"" + name + "\"",
                "remove the table, or build with -Dmedia_engine=hpu_sim"};
  }
  if (simulation.faults.size() > MEDIA_ENGINE_FAULT_RULES) {
    const std::string key = std::string(kTable) + ".faults";
    throw Error{ErrorKind::kSettings, where_written(origin, key),
                key + ": " + std::to_string(simulation.faults.size()) + " faults",
                "at most " + std::to_string(MEDIA_ENGINE_FAULT_RULES) + " are allowed"};
  }
  std::string options;
  add(&options, origin, engine, "pictures_per_second", number_word("rate", simulation.pictures_per_second));
  add(&options, origin, engine, "latency_ms", number_word("latency_ms", simulation.latency_ms));
  add(&options, origin, engine, "polling", simulation.polling ? "polling=1" : "polling=0");
  add(&options, origin, engine, "timeout_ms", "timeout_ms=" + std::to_string(simulation.timeout_ms));
  add(&options, origin, engine, "fault_seed", "seed=" + std::to_string(simulation.fault_seed));
  for (const std::string& fault : simulation.faults) add(&options, origin, engine, "faults", "fault=" + fault);
  return options;
}

namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 29;
constexpr char kInShard[] = ".tar/";
constexpr std::uint64_t kWaitNs = 1'000'000'000;

TarMember find_member_of(const std::string& shard, const std::string& name) {
  TarReader tar(shard);
  TarMember member;
  while (tar.next(&member)) {
    if (member.name == name) return member;
  }
  throw Error(ErrorKind::kData, shard, "has no member " + name);
}

}  // namespace

std::string shard_of_picture(const std::string& path) {
  if (is_file(path)) return "";
  for (std::size_t end = path.find(kInShard); end != std::string::npos; end = path.find(kInShard, end + 1)) {
    std::string shard = path.substr(0, end + std::strlen(kInShard) - 1);
    if (is_file(shard)) return shard;  // not a folder with such a name
  }
  return "";
}

std::vector<std::uint8_t> read_picture_file(const std::string& path) {
  const std::string shard = shard_of_picture(path);
  std::uint64_t offset = 0, size = 0;
  if (!shard.empty()) {
    const TarMember member = find_member_of(shard, path.substr(shard.size() + 1));
    offset = member.offset;
    size = member.bytes;
  }
  const InputFile file(shard.empty() ? path : shard);
  if (shard.empty()) size = static_cast<std::uint64_t>(file.size());
  if (size > kMaxFileBytes) throw Error(ErrorKind::kData, path, "is larger than 512 MiB");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  file.read(bytes.data(), static_cast<std::int64_t>(offset), bytes.size());
  return bytes;
}

MediaSettings default_media_settings() {
  const MediaEngineSettings defaults;
  MediaSettings settings;
  settings.driver = media_engine_builtin();
  settings.queue_depth = defaults.queue_depth;
  settings.memory_bytes = static_cast<std::size_t>(defaults.memory_mib) << 20;
  settings.max_pixels = max_pixels(defaults.max_megapixels);
  return settings;
}

MediaSettings media_settings_of(const std::string& model_folder, Preprocessing preprocessing, std::int64_t image_side,
                                const std::string& image_processor, PictureFit fit) {
  MediaSettings settings = default_media_settings();
  settings.image_side = image_side;
  settings.preprocessing = preprocessing;
  const PictureRules rules = read_picture_rules(model_folder, preprocessing, image_side, image_processor, fit);
  std::copy(std::begin(rules.mean), std::end(rules.mean), settings.mean);
  std::copy(std::begin(rules.std), std::end(rules.std), settings.std);
  settings.processor = rules.processor;
  return settings;
}

PictureDecoder::PictureDecoder(const MediaSettings& settings, bool raw) : raw_(raw) {
  const std::size_t bytes = memory_bytes(settings);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)));
  if (memory_ == nullptr) throw Error(ErrorKind::kMemory, "media engine", "out of memory");
  media_ = std::make_unique<Media>(settings, Span<std::byte>(memory_.get(), bytes));
}

PictureDecoder::PictureDecoder(const MediaSettings& settings, Span<std::byte> memory)
    : media_(std::make_unique<Media>(settings, memory)) {}

std::size_t PictureDecoder::memory_bytes(const MediaSettings& settings) {
  const media_engine_config config = media_config(settings);
  return align_up(media_engine_memory_needed(&config), kCacheLine);
}

media_engine_status PictureDecoder::decode(Span<const std::uint8_t> encoded, float* pixels,
                                           media_engine_completion* completion) noexcept {
  media_engine_job job = media_->job_form();
  job.raw = raw_ ? 1 : 0;
  job.encoded = encoded.data();
  job.encoded_bytes = encoded.size();
  job.pixels = pixels;
  media_engine_status status = media_engine_submit(media_->engine(), &job);
  if (status != MEDIA_ENGINE_OK) return status;
  do {
    status = media_engine_wait(media_->engine(), completion, kWaitNs);
  } while (status == MEDIA_ENGINE_TIMED_OUT);  // a device at work
  return status == MEDIA_ENGINE_OK ? static_cast<media_engine_status>(completion->status) : status;
}

std::string PictureDecoder::decode(const std::string& path, float* pixels, Size* size) {
  std::vector<std::uint8_t> encoded;
  try {
    encoded = read_picture_file(path);
  } catch (const Error& error) {
    return error.problem();
  }
  media_engine_completion completion = {};
  const media_engine_status status = decode(Span<const std::uint8_t>(encoded), pixels, &completion);
  if (size != nullptr && (status == MEDIA_ENGINE_OK || media_engine_is_bad_picture(status) != 0))
    *size = {completion.width, completion.height};
  if (status == MEDIA_ENGINE_OK) return "";
  if (media_engine_is_bad_picture(status) == 0)
    throw Error(ErrorKind::kData, path, std::string("the media engine failed: ") + media_engine_status_text(status));
  return picture_reason_text(picture_reason(completion));
}

namespace {

MediaSettings thumbnail_settings(std::int64_t side, CopyKind kind) {
  MediaSettings settings = default_media_settings();
  settings.image_side = side;
  if (kind == CopyKind::kMiddle) return settings;
  settings.driver = media_engine_host();
  settings.preprocessing = Preprocessing::kProcessor;
  settings.processor.makes_squares = true;
  settings.interpolation = settings.processor.interpolation = Interpolation::kBilinear;
  return settings;
}

}  // namespace

ThumbnailMaker::ThumbnailMaker(std::int64_t side, CopyKind kind)
    : side_(side), decoder_(thumbnail_settings(side, kind), true), pixels_(static_cast<std::size_t>(3 * side * side)) {}

std::vector<std::uint8_t> ThumbnailMaker::make(const std::string& path, PictureDecoder::Size* size) {
  if (!decoder_.decode(path, pixels_.data(), size).empty()) return {};
  const std::size_t pixels = pixels_.size() / 3;
  std::vector<std::uint8_t> bytes(pixels_.size());
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      const float level = std::clamp(pixels_[c * pixels + i], 0.0f, 255.0f);  // resizing can pass both ends
      bytes[3 * i + c] = static_cast<std::uint8_t>(level + 0.5f);
    }
  }
  const std::string file = png_content({bytes.data(), side_, side_});
  return {file.begin(), file.end()};
}

}  // namespace bascule
