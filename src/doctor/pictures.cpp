// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/data.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/digest.h"
#include "src/base/span.h"
#include "src/bringup/workbench.h"
#include "src/index/picture_folder.h"
#include "src/loader/loader_parts.h"
#include "src/loader/media.h"
#include "src/pictures/picture_decoder.h"
#include "src/runtime/threads.h"

namespace bascule {
namespace {

// Means of quarters are put into steps of this width, in each table shifted by a part of it.
constexpr int kStep = 32, kTables = 4;
constexpr std::size_t kNeighbours = 64;
constexpr int kHalf = kSquareSide / 2;

// The sums of the four quarters of each colour.
std::array<int, 12> quarters_of(const Thumbnail& thumbnail) {
  std::array<int, 12> sums{};
  for (std::size_t i = 0; i < thumbnail.size(); ++i) {
    const std::size_t plane = i / (kSquareSide * kSquareSide);
    const std::size_t y = i / kSquareSide % kSquareSide, x = i % kSquareSide;
    sums[4 * plane + 2 * (y / kHalf) + x / kHalf] += thumbnail[i];
  }
  return sums;
}

struct Place {
  std::uint64_t key;
  std::uint32_t brightness, number;
};

Place place_of(const Thumbnail& thumbnail, std::size_t number, int table) {
  constexpr int kCells = kHalf * kHalf;
  std::array<std::uint8_t, 12> steps{};
  const std::array<int, 12> sums = quarters_of(thumbnail);
  int all = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    steps[i] = static_cast<std::uint8_t>((sums[i] + table * kCells * kStep / kTables) / (kCells * kStep));
    all += sums[i];
  }
  return {digest_of(steps.data(), steps.size()), static_cast<std::uint32_t>(all), static_cast<std::uint32_t>(number)};
}

class Groups {
 public:
  explicit Groups(std::size_t count) : parents_(count) { std::iota(parents_.begin(), parents_.end(), 0U); }
  std::uint32_t first_of(std::uint32_t member) {
    while (parents_[member] != member) member = parents_[member] = parents_[parents_[member]];
    return member;
  }
  void join(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t first = first_of(a), second = first_of(b);
    parents_[std::max(first, second)] = std::min(first, second);
  }

 private:
  std::vector<std::uint32_t> parents_;
};

void join_in_table(const std::vector<Thumbnail>& thumbnails, int table, Groups* groups) {
  std::vector<Place> places;
  places.reserve(thumbnails.size());
  for (std::size_t i = 0; i < thumbnails.size(); ++i) places.push_back(place_of(thumbnails[i], i, table));
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    if (a.key != b.key) return a.key < b.key;
    return a.brightness != b.brightness ? a.brightness < b.brightness : a.number < b.number;
  });
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = i + 1; j < std::min(places.size(), i + kNeighbours) && places[j].key == places[i].key; ++j) {
      const std::uint32_t one = places[i].number, other = places[j].number;
      if (groups->first_of(one) == groups->first_of(other)) continue;
      if (are_alike(thumbnails[one], thumbnails[other])) groups->join(one, other);
    }
  }
}

double thread_seconds() { return 1e-9 * static_cast<double>(thread_cpu_ns()); }

// By the first chunk of a PNG file, its header.
bool is_grey_16(Span<const std::uint8_t> file) {
  constexpr std::uint8_t kSignature[] = {0x89, 'P', 'N', 'G'};
  constexpr std::size_t kBits = 24, kColor = 25;
  return file.size() > kColor && std::equal(std::begin(kSignature), std::end(kSignature), file.data()) &&
         file[kBits] == 16 && file[kColor] == 0;
}

MediaSettings of_one_thread(MediaSettings settings) {
  settings.polling_threads = settings.queue_depth = 1;
  settings.options.clear();
  return settings;
}

// The decoder of one thread: the host's, with the limits of the run's.
class Reader {
 public:
  Reader(const MediaSettings& settings, std::size_t largest_file, bool has_random_crops)
      : encoded_(largest_file + 1),
        pixels_(static_cast<std::size_t>(3 * settings.image_side * settings.image_side)),
        side_(settings.image_side),
        has_random_crops_(has_random_crops),
        decoder_(of_one_thread(settings), true) {}

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
    media_engine_completion completion = {};
    const media_engine_status status = decoder_.decode({encoded_.data(), bytes}, pixels_.data(), &completion);
    BASCULE_CHECK(status == MEDIA_ENGINE_OK || media_engine_is_bad_picture(status) != 0);  // the host's decoder
    record->width = completion.width;
    record->height = completion.height;
    if (status == MEDIA_ENGINE_OK) return true;
    // A random crop takes a part of any picture.
    if (status != MEDIA_ENGINE_PICTURE_TOO_ELONGATED || !has_random_crops_) record->reason = picture_reason(completion);
    return false;
  }

  std::vector<std::uint8_t> encoded_;
  std::vector<float> pixels_;
  std::int64_t side_;
  bool has_random_crops_;
  double seconds_ = 0.0;
  PictureDecoder decoder_;
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

Thumbnail thumbnail_of(const float* pixels, std::int64_t side) {
  Thumbnail thumbnail{};
  std::size_t place = 0;
  for (std::int64_t plane = 0; plane < 3; ++plane) {
    for (std::int64_t row = 0; row < kSquareSide; ++row) {
      for (std::int64_t column = 0; column < kSquareSide; ++column) {
        // A picture with fewer pixels than squares: some squares show the same pixel.
        const std::int64_t top = row * side / kSquareSide, left = column * side / kSquareSide;
        const std::int64_t bottom = std::max(top + 1, (row + 1) * side / kSquareSide);
        const std::int64_t right = std::max(left + 1, (column + 1) * side / kSquareSide);
        double sum = 0.0;
        for (std::int64_t y = top; y < bottom; ++y) {
          for (std::int64_t x = left; x < right; ++x) sum += static_cast<double>(pixels[(plane * side + y) * side + x]);
        }
        const double mean = sum / static_cast<double>((bottom - top) * (right - left));
        thumbnail[place++] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(mean), 0.0, 255.0));
      }
    }
  }
  return thumbnail;
}

bool are_alike(const Thumbnail& a, const Thumbnail& b) noexcept {
  int sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int apart = std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i]));
    if (apart > kMostApart) return false;
    sum += apart;
  }
  return static_cast<double>(sum) <= kMostApartMean * static_cast<double>(a.size());
}

std::vector<std::vector<std::uint32_t>> find_alike(const std::vector<Thumbnail>& thumbnails) {
  Groups groups(thumbnails.size());
  for (int table = 0; table < kTables; ++table) join_in_table(thumbnails, table, &groups);
  std::vector<std::vector<std::uint32_t>> members;
  std::map<std::uint32_t, std::size_t> places;  // of groups, by their first
  for (std::uint32_t i = 0; i < thumbnails.size(); ++i) {
    const std::uint32_t first = groups.first_of(i);
    if (first == i) continue;
    const auto [place, is_new] = places.try_emplace(first, members.size());
    if (is_new) members.push_back({first});
    members[place->second].push_back(i);
  }
  std::sort(members.begin(), members.end());
  return members;
}

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
