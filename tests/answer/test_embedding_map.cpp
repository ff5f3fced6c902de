// SPDX-License-Identifier: Apache-2.0
#include "src/answer/embedding_map.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/answer/sample_report.h"

namespace bascule {
namespace {

// Rows in two dimensions: the first one varies most, so that it is the map's x.
struct Rows {
  std::vector<float> text, image;
  std::vector<MapRow> words;

  void add(const std::string& location, const std::string& caption, float text_x, float text_y, float image_x,
           float image_y) {
    words.push_back({location, caption});
    text.insert(text.end(), {text_x, text_y});
    image.insert(image.end(), {image_x, image_y});
  }
  MapSource source() const {
    MapSource source;
    source.rows = static_cast<std::int64_t>(words.size());
    source.width = 2;
    source.text = text.data();
    source.image = image.data();
    source.row = [this](std::int64_t row) { return words[static_cast<std::size_t>(row)]; };
    return source;
  }
};

Rows cross() {
  Rows rows;
  rows.add("a/1.jpg", "left", -4, 0, -2, 0);
  rows.add("b/2.jpg", "right", 4, 0, 2, 0);
  rows.add("a/1.jpg", "up", 0, 1, 9, 9);  // the picture has the place of its first row
  rows.add("b/2.jpg", "down", 0, -1, 9, 9);
  return rows;
}

TEST(EmbeddingMap, PlacesPointsByTheirComponentsInOneScale) {
  const Rows rows = cross();
  const EmbeddingMap map = make_embedding_map(rows.source());
  ASSERT_EQ(map.pictures.size(), 2u);
  ASSERT_EQ(map.captions.size(), 4u);
  EXPECT_EQ(map.captions[2].picture, 0u);
  const double edge = kMapThumbnail / 2 + 4, unit = (kMapWidth - 2 * edge) / 8;
  EXPECT_NEAR(map.captions[0].x, edge, 1e-9);
  EXPECT_NEAR(map.captions[1].x, kMapWidth - edge, 1e-9);
  EXPECT_NEAR(map.pictures[0].x, kMapWidth / 2 - 2 * unit, 1e-9);
  EXPECT_NEAR(map.captions[2].y, kMapHeight / 2 - unit, 1e-9);  // up
  EXPECT_NEAR(map.captions[3].y, kMapHeight / 2 + unit, 1e-9);
  EXPECT_EQ(map.captions[0].score, 8.0);
  EXPECT_NEAR(map.shares[0], 40.0 / 42.0, 1e-12);
  EXPECT_NEAR(map.shares[1], 2.0 / 42.0, 1e-12);
  EXPECT_EQ(map.groups, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(map.has_query);
}

TEST(EmbeddingMap, AQueryHasAPlaceAndWhatItFoundHasThumbnailsFirst) {
  Rows rows = cross();
  for (int i = 0; i < 3; ++i) rows.add("c/" + std::to_string(i) + ".jpg", "near", 0, 0, 0, 0);
  MapSource source = rows.source();
  const float query[] = {8, 0};
  source.query = {query, 2};
  source.first_pictures = {"c/1.jpg", "gone.jpg"};
  const EmbeddingMap map = make_embedding_map(source);
  EXPECT_TRUE(map.has_query);
  EXPECT_NEAR(map.query_x, kMapWidth - kMapThumbnail / 2 - 4, 1e-9);  // the frame holds it too
  ASSERT_EQ(map.pictures.size(), 5u);
  EXPECT_TRUE(map.pictures[0].has_thumbnail);
  EXPECT_FALSE(map.pictures[2].has_thumbnail);  // c/1.jpg lies in the same place
  EXPECT_TRUE(map.pictures[3].has_thumbnail);
}

TEST(EmbeddingMap, NothingToSeeGivesNoMap) {
  Rows one;
  one.add("1.jpg", "x", 1, 0, 0, 1);
  EXPECT_TRUE(make_embedding_map(one.source()).captions.empty());
  EXPECT_TRUE(make_embedding_map(MapSource{}).captions.empty());
  Rows still;
  for (int i = 0; i < 3; ++i) still.add(std::to_string(i), "x", 1, 0, 1, 0);
  EXPECT_TRUE(make_embedding_map(still.source()).captions.empty());
  Rows diverged = cross();
  diverged.text[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(make_embedding_map(diverged.source()).captions.empty());
  diverged = cross();
  diverged.image[0] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(make_embedding_map(diverged.source()).captions.empty());
}

TEST(EmbeddingMap, IsBoundedHoweverManyRowsThereAre) {
  const EmbeddingMap map = test::largest_map("");
  EXPECT_EQ(map.rows, 4 * kMostMapRows);
  ASSERT_EQ(map.captions.size(), static_cast<std::size_t>(kMostMapRows));
  EXPECT_EQ(map.captions[1].text, "caption 4");  // evenly spaced
  std::vector<const MapPicture*> shown;
  for (const MapPicture& picture : map.pictures) {
    EXPECT_EQ(picture.has_thumbnail, !picture.thumbnail.empty());
    if (picture.has_thumbnail) shown.push_back(&picture);
  }
  EXPECT_GT(shown.size(), kMostThumbnails / 2);
  EXPECT_LE(shown.size(), kMostThumbnails);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = std::fabs(shown[i]->x - shown[j]->x) >= kMapThumbnail ||
                         std::fabs(shown[i]->y - shown[j]->y) >= kMapThumbnail;
      EXPECT_TRUE(apart) << i << " hides " << j;
    }
  }
}

TEST(EmbeddingMap, BeyondSevenFoldersTheSmallestShareAColour) {
  Rows rows = cross();
  for (int folder = 0; folder < 7; ++folder) rows.add("f" + std::to_string(folder) + "/1.jpg", "x", 0, 0, 0, 0);
  rows.add("f6/2.jpg", "x", 0, 0, 0, 0);
  const EmbeddingMap map = make_embedding_map(rows.source());
  EXPECT_EQ(map.groups, (std::vector<std::string>{"f6", "a", "b", "f0", "f1", "f2", "f3", "other folders"}));
  EXPECT_EQ(map.pictures[0].group, 1u);
  EXPECT_EQ(map.pictures.back().group, 0u);
  EXPECT_EQ(map.pictures[7].group, kMostMapGroups);  // f5
}

}  // namespace
}  // namespace bascule
