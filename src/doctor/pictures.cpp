// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/pictures.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/base/error.h"
#include "src/bringup/share_work.h"
#include "src/index/picture_digest.h"
#include "src/index/picture_folder.h"
#include "src/loader/loader_parts.h"
#include "src/loader/picture_reason.h"
#include "src/runtime/threads.h"

namespace bascule {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// By the first chunk of a PNG file, its header.
bool is_grey_16(Span<const std::uint8_t> file) {
  constexpr std::uint8_t kSignature[] = {0x89, 'P', 'N', 'G'};
  constexpr std::size_t kBits = 24, kColor = 25;
  return file.size() > kColor && std::equal(std::begin(kSignature), std::end(kSignature), file.data()) &&
         file[kBits] == 16 && file[kColor] == 0;
}

// The decoder of one thread: the host's, with the limits of the run's.
class Reader {
 public:
  Reader(MediaSettings settings, std::size_t largest_file, bool has_random_crops)
      : encoded_(largest_file + 1),
        pixels_(static_cast<std::size_t>(3 * settings.image_side * settings.image_side)),
        side_(settings.image_side),
        has_random_crops_(has_random_crops) {
    settings.polling_threads = settings.queue_depth = 1;
    settings.options.clear();
    const media_engine_config config = media_config(settings);
    const std::size_t bytes = align_up(media_engine_memory_needed(&config), kCacheLine);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)));
    if (memory_ == nullptr) throw Error(ErrorKind::kMemory, "media engine", "out of memory");
    media_ = std::make_unique<Media>(settings, Span<std::byte>(memory_.get(), bytes));
  }

  void read(const PictureFolder& folder, std::int64_t image_id, SplitPictures* pictures) {
    const double began = thread_seconds();
    const std::size_t at = static_cast<std::size_t>(image_id);
    PictureRecord& record = pictures->records[at];
    std::size_t bytes = 0;
    const int problem = folder.read_picture(image_id, Span<std::uint8_t>(encoded_.data(), encoded_.size()), &bytes);
    if (problem != 0) {
      record.reason = -problem;
      return;
    }
    pictures->digests[at] = picture_digest(encoded_.data(), bytes);
    record.is_grey_16 = is_grey_16({encoded_.data(), bytes});
    record.has_thumbnail = decode(bytes, &record);
    if (record.has_thumbnail) pictures->thumbnails[at] = thumbnail_of(pixels_.data(), side_);
    seconds_ += thread_seconds() - began;
  }
  double seconds() const { return seconds_; }

 private:
  bool decode(std::size_t bytes, PictureRecord* record) {
    media_engine_job job = media_->job_form();
    job.raw = 1;
    job.encoded = encoded_.data();
    job.encoded_bytes = bytes;
    job.pixels = pixels_.data();
    media_engine_completion completion = {};
    media_engine_status status = media_engine_submit(media_->engine(), &job);
    if (status == MEDIA_ENGINE_OK) status = media_engine_poll(media_->engine(), &completion);
    BASCULE_CHECK(status == MEDIA_ENGINE_OK);  // the host's decoder works in poll
    record->width = completion.width;
    record->height = completion.height;
    if (completion.status == MEDIA_ENGINE_OK) return true;
    // A random crop takes a part of any picture.
    if (completion.status != MEDIA_ENGINE_PICTURE_TOO_ELONGATED || !has_random_crops_)
      record->reason = picture_reason(completion);
    return false;
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<std::uint8_t> encoded_;
  std::vector<float> pixels_;
  std::int64_t side_;
  bool has_random_crops_;
  double seconds_ = 0.0;
  std::unique_ptr<std::byte, Free> memory_;  // the engine's: released after it
  std::unique_ptr<Media> media_;
};

SplitPictures read_split(const OpenedData& opened, std::size_t split, Threads& threads) {
  const RunData& data = opened.data();
  const RecordedSplit& recorded = data.splits[split];
  const Manifest& manifest = *recorded.manifest;
  SplitPictures pictures;
  pictures.split = split;
  const std::size_t count = static_cast<std::size_t>(manifest.pictures());
  pictures.records.resize(count);
  pictures.digests.resize(count, kNoContent);
  pictures.thumbnails.resize(count);
  const bool has_random_crops = recorded.split == Split::kTrain && opened.settings().data.augment != Augment::kNone;
  std::vector<std::unique_ptr<Reader>> readers;
  readers.reserve(static_cast<std::size_t>(threads.count()));
  for (int thread = 0; thread < threads.count(); ++thread)
    readers.push_back(
        std::make_unique<Reader>(media_settings(data.loader), manifest.largest_picture_bytes(), has_random_crops));
  const PictureFolder folder(manifest);
  share_work(threads, manifest.pictures(), [&](std::int64_t picture, int thread) {
    readers[static_cast<std::size_t>(thread)]->read(folder, picture, &pictures);
  });
  for (const std::unique_ptr<Reader>& reader : readers) pictures.seconds += reader->seconds();
  return pictures;
}

}  // namespace

std::vector<SplitPictures> read_pictures(const OpenedData& opened, int threads) {
  std::vector<SplitPictures> pictures;
  if (!reads_pictures(opened.data().loader)) return pictures;
  constexpr int kMostThreads = 16;  // each has the memory of a decoder
  Threads team(std::min(threads, kMostThreads), false);
  for (std::size_t split = 0; split < opened.data().splits.size(); ++split)
    pictures.push_back(read_split(opened, split, team));
  return pictures;
}

PictureFigures figures_of(const SplitPictures& pictures) {
  PictureFigures figures;
  figures.pictures = static_cast<std::int64_t>(pictures.records.size());
  for (const PictureRecord& record : pictures.records) {
    if (record.reason != 0) {
      ++figures.unusable;
      continue;
    }
    const std::int64_t shorter = std::min(record.width, record.height), longer = std::max(record.width, record.height);
    figures.shortest_side = figures.shortest_side == 0 ? shorter : std::min(figures.shortest_side, shorter);
    figures.longest_side = std::max(figures.longest_side, longer);
  }
  return figures;
}

RowDigests digests_by_row(const Manifest& manifest, const SplitPictures& pictures) {
  RowDigests digests(static_cast<std::size_t>(manifest.rows()));
  for (std::int64_t row = 0; row < manifest.rows(); ++row)
    digests[static_cast<std::size_t>(row)] = pictures.digests[static_cast<std::size_t>(manifest.image_id(row))];
  return digests;
}

}  // namespace bascule
