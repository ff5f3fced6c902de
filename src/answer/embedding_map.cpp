// SPDX-License-Identifier: Apache-2.0
#include "src/answer/embedding_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "src/answer/page.h"
#include "src/base/error.h"
#include "src/base/principal_components.h"
#include "src/base/utf8.h"

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

constexpr std::size_t kTitleBytes = 96;    // of a caption or name that a point shows
constexpr std::size_t kSpokenBytes = 240;  // of a caption beside a thumbnail
constexpr std::size_t kSpokenCaptions = 5;

// A button lies under its thumbnail, invisible, so that the browser scrolls to it. What belongs to a thumbnail comes
// behind it in the document and is shown while the pointer, the focus or the choice is on it.
constexpr const char* kMapStyle = R"css(
.map{position:relative;margin:0;padding:0;border:0;min-width:0}
.map legend{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.map>svg{background:var(--wash);border-radius:8px}
.map .pair{stroke:var(--soft);stroke-width:.8;opacity:.45}
.map .spot{fill:var(--k);stroke:var(--card);stroke-width:.6}.map g:hover .pair,.map label:hover .pair,.map :checked~svg .pair,.map :focus~svg .pair{stroke:var(--ink);stroke-width:2.5;opacity:1}
.map label svg{position:absolute;inset:0;height:100%;pointer-events:none}.map label .spot{pointer-events:auto}.map label:hover svg,.map :checked~svg{z-index:2}
.map input,.map .frame{position:absolute;width:4.4%;height:auto;aspect-ratio:1;left:calc(var(--x)*1% - 2.2%);top:var(--y);transform:translateY(-50%);margin:0}
.map input{opacity:0}
.map .frame{background:var(--card) center/cover no-repeat;print-color-adjust:exact;-webkit-print-color-adjust:exact;border:2px solid var(--k);border-radius:6px;cursor:pointer;z-index:1}
.map label:hover .frame,.map :checked~.frame{z-index:3;outline:3px solid var(--ink)}.map :focus-visible~.frame{z-index:3;outline:3px solid var(--c2);outline-offset:2px}
.map .said{position:absolute;visibility:hidden;pointer-events:none;left:0;right:0;top:100%;max-height:7em;overflow:hidden;padding:8px 12px;background:var(--card);font-size:13.5px}
.map label:hover .said,.map :checked~.said,.map :focus~.said{visibility:visible}.map label:hover .said{z-index:4}
.map .query{fill:var(--bad);stroke:var(--card);stroke-width:1.5}
.map-room{height:7em}
.map-points{font-size:13.5px}.map-points summary{cursor:pointer;color:var(--soft)}
.map-key{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:0 0 12px;padding:0;font-size:13px;color:var(--soft)}
.map-key svg{display:inline-block;width:14px;height:14px;vertical-align:-2px;margin-right:6px}
)css";

std::string cut(const std::string& text, std::size_t bytes) {
  if (text.size() <= bytes) return html_escape(text);
  return html_escape(text.substr(0, utf8_cut(text, bytes))) + "…";
}

// Where there is one folder only, colours tell pictures and captions apart; shapes do so always.
std::string colour_of(const EmbeddingMap& map, const MapPicture& picture, bool is_caption) {
  return "c" + std::to_string(map.groups.empty() ? (is_caption ? 2 : 1) : picture.group + 1);
}

std::string place(double x, double y, const char* name_x, const char* name_y) {
  return std::string(" ") + name_x + "=\"" + html_number(x) + "\" " + name_y + "=\"" + html_number(y) + "\"";
}

std::string caption_points(const EmbeddingMap& map, const MapPicture& picture, const std::vector<std::size_t>& some) {
  std::string lines, dots;
  for (const std::size_t i : some) {
    const MapCaption& caption = map.captions[i];
    lines += "<line class=\"pair\"" + place(picture.x, picture.y, "x1", "y1") +
             place(caption.x, caption.y, "x2", "y2") + "/>";
    dots += "<circle class=\"spot " + colour_of(map, picture, true) + "\" r=\"3.6\"" +
            place(caption.x, caption.y, "cx", "cy") + "><title>" + cut(caption.text, kTitleBytes) + "</title></circle>";
  }
  return lines + dots;
}

std::string picture_point(const EmbeddingMap& map, const MapPicture& picture) {
  return "<rect class=\"spot " + colour_of(map, picture, false) + "\" width=\"7\" height=\"7\"" +
         place(picture.x - 3.5, picture.y - 3.5, "x", "y") + "><title>" + cut(picture.location, kTitleBytes) +
         "</title></rect>";
}

std::string frame_svg() { return "viewBox=\"0 0 " + html_number(kMapWidth) + " " + html_number(kMapHeight) + "\""; }

// "a cat (0.712) · a kitten (0.655) and 3 more"
std::string said_of(const EmbeddingMap& map, const MapPicture& picture, const std::vector<std::size_t>& some,
                    std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < some.size() && i < kSpokenCaptions; ++i) {
    const MapCaption& caption = map.captions[some[i]];
    out += (i == 0 ? "" : " · ") + cut(caption.text, bytes) + " (" + score_text(caption.score) + ")";
  }
  if (some.size() > kSpokenCaptions) out += " and " + std::to_string(some.size() - kSpokenCaptions) + " more";
  return map.groups.empty() ? out : out + ", in " + cut(map.groups[picture.group], kTitleBytes);
}

std::string thumbnail(const EmbeddingMap& map, const MapPicture& picture, const std::vector<std::size_t>& some) {
  const std::string said = said_of(map, picture, some, kSpokenBytes);
  const std::string image =
      picture.thumbnail.empty() ? "" : " style=\"background-image:url(" + picture_url(picture.thumbnail) + ")\"";
  return "<label style=\"--x:" + html_number(picture.x / kMapWidth * 100) +
         ";--y:" + html_number(picture.y / kMapHeight * 100) + "%\"><input type=\"radio\" name=\"map\" aria-label=\"" +
         said + "\"/><svg " + frame_svg() + " aria-hidden=\"true\">" + caption_points(map, picture, some) +
         "</svg><span class=\"frame " + colour_of(map, picture, false) + "\"" + image +
         "></span><span class=\"said\" dir=\"auto\" aria-hidden=\"true\">" + said + "</span></label>\n";
}

// Points have no thumbnail that the keyboard leads to.
std::string captions_of_points(const EmbeddingMap& map, const std::vector<std::vector<std::size_t>>& captions) {
  std::string rows;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < map.pictures.size(); ++i) {
    if (map.pictures[i].has_thumbnail) continue;
    rows += "<li dir=\"auto\">" + said_of(map, map.pictures[i], captions[i], kTitleBytes) + "</li>\n";
    ++count;
  }
  if (count == 0) return "";
  return std::string("<details class=\"map-points\"><summary>Captions of the ") + readable_count(count) + " " +
         noun_for(count, "picture") + " without a thumbnail</summary>\n<ul>\n" + rows + "</ul></details>\n";
}

std::string key_entry(const char* shape, const std::string& text) {
  return std::string("<li><svg viewBox=\"0 0 14 14\" class=\"map\" aria-hidden=\"true\">") + shape + "</svg>" + text +
         "</li>";
}

std::string key_of(const EmbeddingMap& map) {
  std::string out = "<ul class=\"map-key\">";
  const bool coloured = map.groups.empty();
  out += key_entry(coloured ? "<rect class=\"spot c1\" x=\"2\" y=\"2\" width=\"10\" height=\"10\"/>"
                            : "<rect x=\"2\" y=\"2\" width=\"10\" height=\"10\" fill=\"currentColor\"/>",
                   "picture, as a thumbnail where there is room");
  out += key_entry(coloured ? "<circle class=\"spot c2\" cx=\"7\" cy=\"7\" r=\"5\"/>"
                            : "<circle cx=\"7\" cy=\"7\" r=\"5\" fill=\"currentColor\"/>",
                   "caption, joined to its picture by a line");
  if (map.has_query) out += key_entry("<path class=\"query\" d=\"M7 0L14 7L7 14L0 7Z\"/>", "what was searched for");
  for (std::size_t i = 0; i < map.groups.size(); ++i) {
    const std::string mark = "<circle class=\"spot c" + std::to_string(i + 1) + "\" cx=\"7\" cy=\"7\" r=\"6\"/>";
    out += key_entry(mark.c_str(), map.groups[i].empty() ? "no folder" : cut(map.groups[i], kTitleBytes));
  }
  return out + "</ul>\n";
}

std::string lead_of(const EmbeddingMap& map) {
  const auto captions = static_cast<std::int64_t>(map.captions.size());
  std::string out = std::string("<p class=\"lead\">") + readable_count(captions);
  if (captions < map.rows) out += std::string(", evenly spaced, of the split's ") + readable_count(map.rows);
  out += std::string(" captions and their ") + readable_count(static_cast<std::int64_t>(map.pictures.size())) +
         " pictures, by the two principal components of their embeddings, which hold <b>" +
         readable_percent(map.shares[0]) + "</b> (across) and <b>" + readable_percent(map.shares[1]) +
         "</b> (up) of the variance. What is near here may be far apart in the other components.";
  out += map.groups.empty() ? " Colours tell pictures and captions apart: all pictures lie in one folder."
                            : " Colours tell the pictures' folders apart.";
  return out + " Point at a picture, or press Tab and then arrow keys, for its captions and their cosines.</p>\n";
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

std::string map_style(const EmbeddingMap& map) { return map.captions.empty() ? "" : kMapStyle; }

std::string embedding_map_section(const EmbeddingMap& map) {
  if (map.captions.empty()) return "";
  std::vector<std::vector<std::size_t>> captions(map.pictures.size());
  for (std::size_t i = 0; i < map.captions.size(); ++i) captions[map.captions[i].picture].push_back(i);
  std::string points, thumbnails;
  for (std::size_t i = 0; i < map.pictures.size(); ++i) {
    const MapPicture& picture = map.pictures[i];
    if (picture.has_thumbnail) {
      thumbnails += thumbnail(map, picture, captions[i]);
    } else {
      points += "<g>" + caption_points(map, picture, captions[i]) + picture_point(map, picture) + "</g>\n";
    }
  }
  std::string query;
  if (map.has_query) {
    query = "<path class=\"query\" d=\"M" + html_number(map.query_x) + " " + html_number(map.query_y - 11) +
            "l11 11l-11 11l-11 -11Z\"><title>what was searched for</title></path>";
  }
  return lead_of(map) + key_of(map) + "<fieldset class=\"map\"><legend>Pictures of the map</legend><svg " +
         frame_svg() + " role=\"img\" aria-label=\"Map of the embeddings\">\n" + points + query + "</svg>\n" +
         thumbnails + "</fieldset>\n<div class=\"map-room\"></div>\n" + captions_of_points(map, captions);
}

}  // namespace bascule
