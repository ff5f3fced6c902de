// SPDX-License-Identifier: Apache-2.0
// A map of what a model learnt: embeddings of captions and pictures in two dimensions, by principal components, for
// report.html and the page of a search. Finish phase: allocates.
//
// The size of the map is bounded: kMostMapRows rows, evenly spaced, so at most twice as many points; thumbnails for as
// many pictures as fit beside each other, at most kMostThumbnails. All choices follow from the rows alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/span.h"

namespace bascule {

inline constexpr std::int64_t kMostMapRows = 2500;
inline constexpr std::size_t kMostThumbnails = 96;
inline constexpr std::size_t kMostMapGroups = 7;  // that have a colour of their own
// The map's frame, and the side of a thumbnail in it. Points keep half a thumbnail's distance from the edge.
inline constexpr double kMapWidth = 1000.0, kMapHeight = 640.0, kMapThumbnail = 44.0;

struct MapPicture {
  std::string location;     // a file, or a picture in a shard
  double x = 0.0, y = 0.0;  // in the frame, y downwards
  std::size_t group = 0;    // index into EmbeddingMap::groups
  bool has_thumbnail = false;
  std::vector<std::uint8_t> thumbnail;  // a small PNG; empty: an empty frame
};
struct MapCaption {
  std::string text;
  std::size_t picture = 0;  // index into EmbeddingMap::pictures
  double x = 0.0, y = 0.0;
  double score = 0.0;  // cosine with its picture
};

struct EmbeddingMap {
  std::vector<MapPicture> pictures;  // in the order of their first row
  std::vector<MapCaption> captions;  // in the order of the rows; none: there is no map
  // Names of folders, where the pictures lie in several, the fullest first; the last one is "other folders" where there
  // are more than kMostMapGroups. Empty: one folder.
  std::vector<std::string> groups;
  std::int64_t rows = 0;  // of the split, of which the captions are some
  double shares[2] = {};  // of the variance, along x and y
  bool has_query = false;
  double query_x = 0.0, query_y = 0.0;
};

struct MapRow {
  std::string location, caption;
};
struct MapSource {
  std::int64_t rows = 0, width = 0;
  const float *text = nullptr, *image = nullptr;  // (rows, width)
  std::function<MapRow(std::int64_t)> row;
  // For a search: its embedding, and pictures that get their thumbnails first, best first.
  Span<const float> query;
  std::vector<std::string> first_pictures;
};

// Without captions where there is nothing to see: fewer than three points, or embeddings that are not finite or do not
// vary. Thumbnails are chosen, not made.
EmbeddingMap make_embedding_map(const MapSource& source);

// make: a small PNG of the picture at a location; empty where it has gone or cannot be read, which leaves an empty
// frame.
void add_thumbnails(EmbeddingMap* map, const std::function<std::vector<std::uint8_t>(const std::string&)>& make);

// The map, for the report and the page of a search: an SVG of points and lines, and over it a radio button for each
// thumbnail, so that one press of Tab reaches them and arrow keys lead from one to the next. Needs map_style(). A page
// grows by about 0.2 KB a point, texts being cut, and by the thumbnails: at most about 2 MB, where texts are of
// ordinary letters. "" for a map without captions.
std::string embedding_map_section(const EmbeddingMap& map);
// Rules beside html_style()'s; "" for a map without captions.
std::string map_style(const EmbeddingMap& map);

}  // namespace bascule
