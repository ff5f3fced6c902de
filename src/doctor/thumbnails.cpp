// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/thumbnails.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "src/base/digest.h"

namespace bascule {
namespace {

// Means of quarters are put into steps of this width, in each table shifted by a part of it.
constexpr int kStep = 32, kTables = 4;
constexpr std::size_t kNeighbours = 64;
constexpr int kHalf = kThumbnailSide / 2;

// The sums of the four quarters of each colour.
std::array<int, 12> quarters_of(const Thumbnail& thumbnail) {
  std::array<int, 12> sums{};
  for (std::size_t i = 0; i < thumbnail.size(); ++i) {
    const std::size_t plane = i / (kThumbnailSide * kThumbnailSide);
    const std::size_t y = i / kThumbnailSide % kThumbnailSide, x = i % kThumbnailSide;
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

}  // namespace

Thumbnail thumbnail_of(const float* pixels, std::int64_t side) {
  Thumbnail thumbnail{};
  std::size_t place = 0;
  for (std::int64_t plane = 0; plane < 3; ++plane) {
    for (std::int64_t row = 0; row < kThumbnailSide; ++row) {
      for (std::int64_t column = 0; column < kThumbnailSide; ++column) {
        // A picture with fewer pixels than squares: some squares show the same pixel.
        const std::int64_t top = row * side / kThumbnailSide, left = column * side / kThumbnailSide;
        const std::int64_t bottom = std::max(top + 1, (row + 1) * side / kThumbnailSide);
        const std::int64_t right = std::max(left + 1, (column + 1) * side / kThumbnailSide);
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

}  // namespace bascule
