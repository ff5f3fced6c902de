// SPDX-License-Identifier: Apache-2.0
#include "src/judge/examples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/judge/judging.h"

namespace bascule::test {
namespace {

// Eight pictures at equal angles, each with one caption: caption i looks where picture (i + shift) does, so that its
// own picture has a place that can be counted by hand.
Report report_of(double shift) {
  Judging judging(kRetrieval, "abcdefgh", 2);
  const auto at = [](double step) {
    const double angle = step * 3.141592653589793 / 8;  // half a turn in all: scores fall with the distance
    return std::vector<float>{static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  };
  const auto pair = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::vector<float>{a[0], a[1], b[0], b[1]};
  };
  for (int batch = 0; batch < 4; ++batch) {
    const int row = 2 * batch;
    judging.take(batch, {row, row + 1}, 1.0f, pair(at(row + shift), at(row + 1 + shift)), pair(at(row), at(row + 1)));
  }
  (void)judging.finish();
  const TemporaryFolder folder;
  return judging.write(folder.path());
}

TEST(RetrievalExamples, TheRightPictureIsShownWithItsScoreAndRankWhereItIsMissed) {
  const Report report = report_of(6.25);
  ASSERT_EQ(report.caption_examples.size(), 8U);
  // Caption 0 looks near picture 6: nearest are 6, 7, 5, 4, 3, 2, 1 and 0.
  const RetrievalExample& missed = report.caption_examples[0];
  ASSERT_EQ(missed.hits.size(), 5U);
  EXPECT_EQ(report.pictures[missed.hits[0].picture].name, "g.jpg");
  EXPECT_EQ(missed.right_rank, 8);
  EXPECT_EQ(report.pictures[missed.right_hit.picture].name, "a.jpg");
  EXPECT_TRUE(missed.right_hit.right);
  EXPECT_NEAR(missed.right_hit.score, std::cos(6.25 * 3.141592653589793 / 8), 1e-6);
}

TEST(RetrievalExamples, TheRightCaptionIsShownWithItsScoreAndRankWhereItIsMissed) {
  const Report report = report_of(6.25);
  ASSERT_EQ(report.picture_examples.size(), 8U);
  // Picture 0: captions 7, 6, 5 and 4, which look furthest, come round to it again; its own is the next.
  const RetrievalExample& example = report.picture_examples[0];
  EXPECT_EQ(report.pictures[example.picture].name, "a.jpg");
  EXPECT_EQ(example.right_hit.text, "c0");
  EXPECT_NEAR(example.right_hit.score, std::cos(6.25 * 3.141592653589793 / 8), 1e-6);
  EXPECT_EQ(example.right_rank, 5);
  const RetrievalExample& missed = report.picture_examples[7];  // caption 1 looks near it, its own furthest away
  EXPECT_EQ(missed.hits[0].text, "c1");
  EXPECT_EQ(missed.right_hit.text, "c7");
  EXPECT_EQ(missed.right_rank, 8);
}

TEST(RetrievalExamples, AreMadeForAPageAlone) {
  Judging judging(kRetrieval, "abc", 2);
  judging.take(0, {0, 1}, 1.0f, {0.6f, 0.8f, 1, 0}, {1, 0, 0, 1});
  judging.take(1, {2}, 1.0f, {0, 1}, {0, -1});
  (void)judging.finish();
  const TemporaryFolder folder;
  const Report page = judging.write(folder.path()), none = judging.write(folder.path(), {}, {}, false);
  EXPECT_EQ(page.map.captions.size(), 3U);
  EXPECT_EQ(page.caption_examples.size(), 3U);
  EXPECT_TRUE(none.map.captions.empty() && none.caption_examples.empty() && none.pictures.empty());
}

// Captions 0, 1 and 3 are of picture a.
TEST(RetrievalExamples, OfSeveralRightCaptionsTheBestIsShown) {
  Judging judging(kRetrieval, "aabac", 2);
  judging.take(0, {0, 1}, 1.0f, {0.6f, 0.8f, 1, 0}, {1, 0, 1, 0});
  judging.take(1, {2, 3}, 1.0f, {0, 1, 0, -1}, {0, 1, 1, 0});
  judging.take(2, {4}, 1.0f, {0.8f, 0.6f}, {-1, 0});
  (void)judging.finish();
  const TemporaryFolder folder;
  const Report report = judging.write(folder.path());
  ASSERT_EQ(report.picture_examples.size(), 3U);
  const RetrievalExample& example = report.picture_examples[0];  // nearest are captions 1, 4, 0, 2 and 3
  ASSERT_EQ(example.hits.size(), 5U);
  EXPECT_TRUE(example.hits[0].right && example.hits[2].right && example.hits[4].right);
  EXPECT_EQ(example.right_hit.text, "c1");
  EXPECT_EQ(example.right_hit.score, 1.0);
  EXPECT_EQ(example.right_rank, 1);
}

// Every row is on the map; rows of one picture share its place.
TEST(RetrievalExamples, TheMapHasEveryCaptionBesideItsPicture) {
  Judging judging(kRetrieval, "aabac", 2);
  judging.take(0, {0, 1}, 1.0f, {0.6f, 0.8f, 1, 0}, {1, 0, 1, 0});
  judging.take(1, {2, 3}, 1.0f, {0, 1, 0, -1}, {0, 1, 1, 0});
  judging.take(2, {4}, 1.0f, {0.8f, 0.6f}, {-1, 0});
  (void)judging.finish();
  const TemporaryFolder folder;
  const EmbeddingMap map = judging.write(folder.path()).map;
  ASSERT_EQ(map.captions.size(), 5U);
  ASSERT_EQ(map.pictures.size(), 3U);
  EXPECT_EQ(map.rows, 5);
  EXPECT_NE(map.pictures[1].location.find("b.jpg"), std::string::npos);
  EXPECT_EQ(map.captions[4].text, "c4");
  const std::size_t pictures[] = {0, 0, 1, 0, 2};
  const double scores[] = {0.6, 1.0, 1.0, 0.0, -0.8};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(map.captions[i].picture, pictures[i]) << i;
    EXPECT_NEAR(map.captions[i].score, scores[i], 1e-6) << i;
  }
}

TEST(RetrievalExamples, AnswersAmongTheFiveAreMarkedAndPicturesHaveTheirCaptions) {
  const Report report = report_of(0);
  for (const RetrievalExample& example : report.caption_examples) {
    EXPECT_TRUE(example.hits[0].right);
    EXPECT_EQ(example.right_rank, 1);
    EXPECT_EQ(report.pictures[example.hits[0].picture].caption, example.text) << "the alternative text";
  }
}

}  // namespace
}  // namespace bascule::test
