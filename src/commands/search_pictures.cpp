// SPDX-License-Identifier: Apache-2.0
#include "src/commands/search_pictures.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/base/align.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/checkpoint/tensor_source.h"
#include "src/train/preprocessor.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 29;
constexpr std::size_t kMediaBytes = std::size_t{256} << 20;  // the defaults of [media_engine]
constexpr std::uint32_t kMaxPixels = 178956970;

}  // namespace

bool has_picture_name(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension == ".jpg" || extension == ".jpeg";
}

std::vector<std::string> find_pictures(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failure;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failure);
  while (!failure && at != fs::recursive_directory_iterator()) {
    std::error_code ignored;  // a link to nothing is no file
    if (has_picture_name(at->path().string()) && at->is_regular_file(ignored)) found.push_back(at->path().string());
    at.increment(failure);
  }
  if (failure) throw Error(ErrorKind::kData, folder, "cannot be searched: " + failure.message());
  if (found.empty()) throw Error(ErrorKind::kData, folder, "no .jpg or .jpeg file in it or below");
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::uint8_t> read_picture_file(const std::string& path) {
  const InputFile file(path);
  if (file.size() > kMaxFileBytes) throw Error(ErrorKind::kData, path, "is larger than 512 MiB");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.size()));
  file.read(bytes.data(), 0, bytes.size());
  return bytes;
}

PictureDecoder::PictureDecoder(const std::string& model_folder, Preprocessing preprocessing, std::int64_t image_side) {
  const PictureStatistics statistics = read_picture_statistics(model_folder);
  MediaSettings settings;
  settings.driver = media_engine_builtin();
  settings.memory_bytes = kMediaBytes;
  settings.image_side = image_side;
  settings.max_pixels = kMaxPixels;
  settings.preprocessing = preprocessing;
  std::copy(statistics.mean, statistics.mean + 3, settings.mean);
  std::copy(statistics.std, statistics.std + 3, settings.std);
  const media_engine_config config = media_config(settings);
  const std::size_t bytes = align_up(media_engine_memory_needed(&config), kCacheLine);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)));
  if (memory_ == nullptr) throw Error(ErrorKind::kMemory, "media engine", "no memory for it");
  media_ = std::make_unique<Media>(settings, Span<std::byte>(memory_.get(), bytes));
}

std::string PictureDecoder::decode(const std::string& path, float* pixels) {
  std::vector<std::uint8_t> encoded;
  try {
    encoded = read_picture_file(path);
  } catch (const Error& error) {
    return error.problem();
  }
  media_engine_job job = media_->job_form();
  job.encoded = encoded.data();
  job.encoded_bytes = encoded.size();
  job.pixels = pixels;
  media_engine_status status = media_engine_submit(media_->engine(), &job);
  media_engine_completion completion = {};
  while (status == MEDIA_ENGINE_OK) {
    status = media_engine_wait(media_->engine(), &completion, 1'000'000'000);
    if (status == MEDIA_ENGINE_OK) break;
    if (status == MEDIA_ENGINE_TIMED_OUT) status = MEDIA_ENGINE_OK;  // a device at work
  }
  if (status == MEDIA_ENGINE_OK) status = static_cast<media_engine_status>(completion.status);
  if (status == MEDIA_ENGINE_OK) return "";
  const std::string reason = media_engine_status_text(status);
  if (media_engine_is_bad_picture(status) == 0)
    throw Error(ErrorKind::kData, path, "the media engine failed: " + reason);
  return reason;
}

}  // namespace bascule
