// SPDX-License-Identifier: Apache-2.0
#include "src/judge/retrieval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/span.h"
#include "src/runtime/threads.h"
#include "tests/support/own_products.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// Rows of whole numbers, so that every product is exact and ties are real. Rows of a picture share its embedding.
struct Rows {
  std::int64_t rows, width;
  std::vector<float> text, images;
  std::vector<std::int32_t> pictures;

  Rows(Seeded& random, std::vector<std::int32_t> of_rows, std::int64_t width_)
      : rows(static_cast<std::int64_t>(of_rows.size())), width(width_), pictures(std::move(of_rows)) {
    text.resize(pictures.size() * static_cast<std::size_t>(width));
    for (float& v : text) v = static_cast<float>(random.integer(-2, 2));
    std::map<std::int32_t, std::vector<float>> of_picture;
    for (const std::int32_t picture : pictures) {
      std::vector<float>& values = of_picture[picture];
      while (values.size() < static_cast<std::size_t>(width))
        values.push_back(static_cast<float>(random.integer(-2, 2)));
      images.insert(images.end(), values.begin(), values.end());
    }
  }

  double score(std::int64_t caption, std::int64_t picture_row) const {
    double sum = 0.0;
    for (std::int64_t k = 0; k < width; ++k) {
      sum += static_cast<double>(text[static_cast<std::size_t>(caption * width + k)]) *
             static_cast<double>(images[static_cast<std::size_t>(picture_row * width + k)]);
    }
    return sum;
  }
  std::int32_t picture(std::int64_t row) const { return pictures[static_cast<std::size_t>(row)]; }

  // The definition, read off its sentences: pictures by number, and for each of them all its rows.
  RecallBothWays by_definition() const {
    std::map<std::int32_t, std::vector<std::int64_t>> captions_of;
    for (std::int64_t row = 0; row < rows; ++row) captions_of[picture(row)].push_back(row);
    std::vector<std::int64_t> text_ranks, picture_ranks;
    for (std::int64_t caption = 0; caption < rows; ++caption) {
      const double own = score(caption, captions_of[picture(caption)].front());
      std::int64_t ahead = 0;
      for (const auto& [other, of_other] : captions_of)
        ahead += other != picture(caption) && score(caption, of_other.front()) >= own ? 1 : 0;
      text_ranks.push_back(ahead);
    }
    for (const auto& [own, captions] : captions_of) {
      double best = -1e300;
      for (const std::int64_t caption : captions) best = std::max(best, score(caption, captions.front()));
      std::int64_t ahead = 0;
      for (std::int64_t caption = 0; caption < rows; ++caption)
        ahead += picture(caption) != own && score(caption, captions.front()) >= best ? 1 : 0;
      picture_ranks.push_back(ahead);
    }
    return {recall_of(text_ranks), recall_of(picture_ranks)};
  }

  static Recall recall_of(const std::vector<std::int64_t>& ranks) {
    const auto below = [&](std::int64_t k) {
      const auto hits = std::count_if(ranks.begin(), ranks.end(), [k](std::int64_t rank) { return rank < k; });
      return static_cast<double>(hits) / static_cast<double>(ranks.size());
    };
    return {below(1), below(5), below(10)};
  }
};

RecallBothWays measure(Rows rows, std::int64_t max_rows, int threads) {
  OwnProducts products(threads);
  std::vector<float> scratch(Retrieval::bytes(max_rows) / sizeof(float));
  const std::size_t padded = static_cast<std::size_t>(align_up<std::int64_t>(max_rows, 16) * rows.width);
  rows.text.resize(padded);
  rows.images.resize(padded);
  Retrieval retrieval(max_rows, rows.width, static_cast<std::byte*>(static_cast<void*>(scratch.data())), products);
  Threads pool(threads, false);
  return retrieval.measure(pool, rows.text.data(), rows.images.data(), rows.pictures.data(), rows.rows);
}

void expect_equal(const Recall& got, const Recall& expected, const std::string& what) {
  EXPECT_DOUBLE_EQ(got.at_1, expected.at_1) << what;
  EXPECT_DOUBLE_EQ(got.at_5, expected.at_5) << what;
  EXPECT_DOUBLE_EQ(got.at_10, expected.at_10) << what;
}

void expect_as_defined(const Rows& rows, const std::string& what) {
  const RecallBothWays expected = rows.by_definition();
  const RecallBothWays got = measure(rows, rows.rows + 5, 2);
  expect_equal(got.text_to_image, expected.text_to_image, what + ", text to image");
  expect_equal(got.image_to_text, expected.image_to_text, what + ", image to text");
}

TEST(Retrieval, IsWhatTheDefinitionSaysForOneThreeAndFiveCaptionsAPicture) {
  Seeded random;
  for (const std::int64_t captions : {1, 3, 5}) {
    for (const std::int64_t count : {1, 2, 15, 16, 17, 100, 256, 257, 300}) {
      std::vector<std::int32_t> pictures;
      for (std::int64_t row = 0; row < count; ++row) pictures.push_back(static_cast<std::int32_t>(row / captions));
      expect_as_defined(Rows(random, pictures, 8), std::to_string(captions) + " captions, " + std::to_string(count));
    }
  }
}

TEST(Retrieval, IsWhatTheDefinitionSaysForPicturesInAnyOrder) {
  Seeded random;
  for (const std::int64_t count : {2, 40, 300}) {
    std::vector<std::int32_t> pictures;
    for (std::int64_t row = 0; row < count; ++row)
      pictures.push_back(static_cast<std::int32_t>(random.integer(0, static_cast<int>(count / 2))));
    expect_as_defined(Rows(random, pictures, 8), std::to_string(count));
  }
}

// Five rows of picture 0 and one of picture 1. Among rows, the caption of picture 1 would have five before its own;
// among pictures it has one.
TEST(Retrieval, RanksPicturesNotRows) {
  Seeded random;
  Rows rows(random, {0, 0, 0, 0, 0, 1}, 2);
  rows.images = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1};
  rows.text = {1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 2, 1};
  RecallBothWays recall = measure(rows, 6, 1);
  EXPECT_DOUBLE_EQ(recall.text_to_image.at_1, 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(recall.text_to_image.at_5, 1.0);
  // Two pictures are asked. Picture 0: its best caption scores 1, the other picture's 2. Picture 1: its caption scores
  // 1, as does the fifth of picture 0, and a tie counts against the query.
  EXPECT_DOUBLE_EQ(recall.image_to_text.at_1, 0.0);
  EXPECT_DOUBLE_EQ(recall.image_to_text.at_5, 1.0);
  rows.text = {-1, 0, 1, 0, -1, 0, -1, 0, -1, 0, 0, 1};
  recall = measure(rows, 6, 1);
  EXPECT_DOUBLE_EQ(recall.image_to_text.at_1, 1.0) << "any caption of the picture is a hit";
}

TEST(Retrieval, CountsTiesAgainstTheQuery) {
  Seeded random;
  Rows rows(random, {0, 1, 2, 3}, 8);
  std::fill(rows.text.begin(), rows.text.end(), 1.0f);
  std::fill(rows.images.begin(), rows.images.end(), 1.0f);
  const RecallBothWays recall = measure(rows, 4, 1);
  EXPECT_EQ(recall.text_to_image.at_1, 0.0);
  EXPECT_EQ(recall.image_to_text.at_1, 0.0);
  EXPECT_EQ(recall.text_to_image.at_5, 1.0);
  EXPECT_EQ(recall.image_to_text.at_5, 1.0);
}

TEST(Retrieval, AScoreThatIsNoNumberIsNoHit) {
  Seeded random;
  Rows rows(random, {0, 1, 1}, 2);
  rows.images = {1, 0, 0, 1, 0, 1};
  rows.text = {1, 0, 0, 1, std::numeric_limits<float>::quiet_NaN(), 0};
  const RecallBothWays recall = measure(rows, 3, 1);
  EXPECT_DOUBLE_EQ(recall.text_to_image.at_1, 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(recall.image_to_text.at_1, 0.5)
      << "picture 1 has a caption that is a number; against picture 0 the other one counts";
}

}  // namespace
}  // namespace bascule::test
