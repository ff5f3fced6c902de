// SPDX-License-Identifier: Apache-2.0
#include "src/answer/embedding_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "src/base/principal_components.h"

namespace bascule {
namespace {

constexpr double kMargin = kMapThumbnail / 2 + 4;

// The rows shown and the pictures that they show, with their embeddings.
struct Shown {
  explicit Shown(const MapSource& of_source) : source(of_source) {
    const std::int64_t count = std::min(source.rows, kMostMapRows);
    std::map<std::string, std::size_t> numbers;
    map.rows = source.rows;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = i * source.rows / count;
      const MapRow words = source.row(row);
      const auto [place, is_new] = numbers.emplace(words.location, map.pictures.size());
      if (is_new) {
        MapPicture picture;
        picture.location = words.location;
        map.pictures.push_back(std::move(picture));
        image.push_back(source.image + row * source.width);
      }
      text.push_back(source.text + row * source.width);
      MapCaption caption;
      caption.text = words.caption;
      caption.picture = place->second;
      caption.score = score(text.back(), image[caption.picture]);
      map.captions.push_back(std::move(caption));
    }
  }
  double score(const float* a, const float* b) const {
    double sum = 0.0;
    for (std::int64_t c = 0; c < source.width; ++c) sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
    return sum;
  }
  bool is_finite(const float* row) const {
    return std::all_of(row, row + source.width, [](float value) { return std::isfinite(value); });
  }
  std::vector<const float*> all() const {
    std::vector<const float*> rows = image;
    rows.insert(rows.end(), text.begin(), text.end());
    return rows;
  }

  const MapSource& source;
  EmbeddingMap map;
  std::vector<const float*> image, text;  // of each of the map's pictures and captions
};

// Places on the plane fill the frame, equally scaled both ways; y grows downwards.
class Frame {
 public:
  void cover(double x, double y) {
    low_x_ = std::min(low_x_, x);
    high_x_ = std::max(high_x_, x);
    low_y_ = std::min(low_y_, y);
    high_y_ = std::max(high_y_, y);
  }
  void move(double* x, double* y) const {
    const double scale = std::min((kMapWidth - 2 * kMargin) / std::max(high_x_ - low_x_, kLeast),
                                  (kMapHeight - 2 * kMargin) / std::max(high_y_ - low_y_, kLeast));
    *x = kMapWidth / 2 + (*x - (low_x_ + high_x_) / 2) * scale;
    *y = kMapHeight / 2 - (*y - (low_y_ + high_y_) / 2) * scale;
  }

 private:
  static constexpr double kLeast = std::numeric_limits<double>::min();
  double low_x_ = std::numeric_limits<double>::infinity(), low_y_ = low_x_;
  double high_x_ = -low_x_, high_y_ = -low_x_;
};

void place_points(Shown* shown, const PrincipalPlane& plane) {
  EmbeddingMap& map = shown->map;
  const std::size_t width = plane.mean.size();
  Frame frame;
  const auto project = [&](const float* row, double* x, double* y) {
    const PrincipalPlane::Place place = plane.place_of({row, width});
    *x = place.x;
    *y = place.y;
    frame.cover(*x, *y);
  };
  for (std::size_t i = 0; i < map.pictures.size(); ++i)
    project(shown->image[i], &map.pictures[i].x, &map.pictures[i].y);
  for (std::size_t i = 0; i < map.captions.size(); ++i) project(shown->text[i], &map.captions[i].x, &map.captions[i].y);
  map.has_query = shown->source.query.size() == width;
  if (map.has_query) project(shown->source.query.data(), &map.query_x, &map.query_y);
  for (MapPicture& picture : map.pictures) frame.move(&picture.x, &picture.y);
  for (MapCaption& caption : map.captions) frame.move(&caption.x, &caption.y);
  if (map.has_query) frame.move(&map.query_x, &map.query_y);
}

// Those to come first, then the pictures in order; each where it hides no thumbnail that is there.
void choose_thumbnails(EmbeddingMap* map, const std::vector<std::string>& first) {
  std::vector<std::size_t> order;
  for (const std::string& location : first) {
    const auto found = std::find_if(map->pictures.begin(), map->pictures.end(),
                                    [&](const MapPicture& picture) { return picture.location == location; });
    if (found != map->pictures.end()) order.push_back(static_cast<std::size_t>(found - map->pictures.begin()));
  }
  for (std::size_t i = 0; i < map->pictures.size(); ++i) order.push_back(i);
  std::vector<const MapPicture*> chosen;
  for (const std::size_t i : order) {
    MapPicture& picture = map->pictures[i];
    const bool hides = std::any_of(chosen.begin(), chosen.end(), [&](const MapPicture* other) {
      return std::fabs(other->x - picture.x) < kMapThumbnail && std::fabs(other->y - picture.y) < kMapThumbnail;
    });
    if (hides || chosen.size() == kMostThumbnails) continue;
    picture.has_thumbnail = true;
    chosen.push_back(&picture);
  }
}

// "cats" of "data/cats/1.jpg"; "" of "1.jpg".
std::string folder_name(const std::string& location) {
  const std::size_t end = location.rfind('/');
  if (end == std::string::npos || end == 0) return "";
  const std::size_t begin = location.rfind('/', end - 1);
  return location.substr(begin == std::string::npos ? 0 : begin + 1,
                         end - (begin == std::string::npos ? 0 : begin + 1));
}

// Folders of classes have the class as their name.
void find_groups(EmbeddingMap* map) {
  std::map<std::string, std::size_t> counts;
  for (const MapPicture& picture : map->pictures) ++counts[folder_name(picture.location)];
  if (counts.size() < 2) return;
  std::vector<std::pair<std::string, std::size_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < order.size(); ++i) {
    numbers[order[i].first] = std::min(i, kMostMapGroups);
    if (i < kMostMapGroups) map->groups.push_back(order[i].first);
  }
  if (order.size() > kMostMapGroups) map->groups.push_back("other folders");
  for (MapPicture& picture : map->pictures) picture.group = numbers[folder_name(picture.location)];
}

}  // namespace

EmbeddingMap make_embedding_map(const MapSource& source) {
  if (source.rows < 1 || source.width < 2) return {};
  Shown shown(source);
  const std::vector<const float*> all = shown.all();
  if (all.size() < 3 || !std::all_of(all.begin(), all.end(), [&](const float* row) { return shown.is_finite(row); }))
    return {};
  const PrincipalPlane plane = principal_plane(all, source.width);
  if (!(plane.shares[0] > 0.0)) return {};
  std::copy(std::begin(plane.shares), std::end(plane.shares), shown.map.shares);
  place_points(&shown, plane);
  choose_thumbnails(&shown.map, source.first_pictures);
  find_groups(&shown.map);
  return std::move(shown.map);
}

void add_thumbnails(EmbeddingMap* map, const std::function<std::vector<std::uint8_t>(const std::string&)>& make) {
  for (MapPicture& picture : map->pictures) {
    if (picture.has_thumbnail) picture.thumbnail = make(picture.location);
  }
}

}  // namespace bascule
