// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "src/answer/embedding_map.h"
#include "src/answer/report.h"
#include "src/answer/result_pages.h"
#include "tests/answer/page_text.h"
#include "tests/answer/sample_report.h"

namespace bascule::test_html_map {
namespace {

using test::contains;
using test::count;

TEST(HtmlMap, EveryPictureIsAButtonOrAPointAndEveryCaptionIsJoinedToIts) {
  EmbeddingMap map = test::sample_report().map;
  map.pictures[1].has_thumbnail = false;
  const std::string html = embedding_map_section(map);
  const auto pictures = map.pictures.size(), captions = map.captions.size();
  EXPECT_EQ(count(html, "<input type=\"radio\" name=\"map\""), pictures - 1);
  EXPECT_EQ(count(html, "<rect class=\"spot c"), 1u);
  EXPECT_EQ(count(html, "<line class=\"pair\""), captions);
  EXPECT_EQ(count(html, "r=\"3.6\""), captions);
  EXPECT_TRUE(
      contains(html, "aria-label=\"a cat &amp; its &quot;shadow&quot; (0.900) · a sleeping cat (0.700), in cats\""));
  EXPECT_TRUE(contains(html, "<title>two dogs</title>"));
  EXPECT_TRUE(
      contains(html, "Captions of the 1 picture without a thumbnail</summary>\n<ul>\n<li dir=\"auto\">a dog ("));
  EXPECT_TRUE(contains(html, "4 captions and their 3 pictures"));
  EXPECT_TRUE(contains(html, "</b> (across) and <b>"));
  EXPECT_FALSE(contains(html, "evenly spaced"));
}

TEST(HtmlMap, FoldersHaveColoursAndWithoutThemPicturesAndCaptionsHave) {
  EmbeddingMap map = test::sample_report().map;
  EXPECT_TRUE(contains(embedding_map_section(map), "cats</li>"));
  EXPECT_TRUE(contains(embedding_map_section(map), "Colours tell the pictures' folders apart."));
  EXPECT_EQ(count(embedding_map_section(map), "class=\"frame c1\""), 2u);  // dogs
  EXPECT_EQ(count(embedding_map_section(map), "class=\"frame c2\""), 1u);
  map.groups.clear();
  const std::string plain = embedding_map_section(map);
  EXPECT_EQ(count(plain, "class=\"frame c1\""), 3u);
  EXPECT_TRUE(contains(plain, "all pictures lie in one folder"));
  EXPECT_FALSE(contains(plain, "<details"));
  EXPECT_EQ(count(plain, "class=\"spot c2\" r=\"3.6\""), 4u);
}

TEST(HtmlMap, FiveThousandPointsStaySmall) {
  const EmbeddingMap map = test::largest_map(" of something that a picture shows");
  const std::string html = embedding_map_section(map);
  EXPECT_EQ(count(html, "r=\"3.6\"") + map.pictures.size(), 5000u);
  EXPECT_TRUE(contains(html, "2,500, evenly spaced, of the split's 10,000 captions and their 2,500 pictures"));
  EXPECT_LT(html.size(), std::size_t{2} << 20);
  EXPECT_LT(embedding_map_section(test::largest_map(std::string(1000, '"'))).size(), std::size_t{5} << 20);
}

TEST(HtmlMap, ThePagesHaveItsRulesWhereTheyHaveAMap) {
  Report report = test::sample_report();
  EXPECT_TRUE(contains(report_html(report), ".map .spot{"));
  SearchAnswer answer;
  answer.map = report.map;
  answer.map.has_query = true;
  const std::string page = search_html(answer, {});
  EXPECT_TRUE(contains(page, ".map .spot{"));
  EXPECT_TRUE(contains(page, "<h2>Map of the embeddings</h2>"));
  EXPECT_EQ(count(page, "<path class=\"query\""), 2u);  // in the key and in the map
  report.map = answer.map = {};
  EXPECT_FALSE(contains(report_html(report), "class=\"map\""));
  EXPECT_FALSE(contains(report_html(report), ".map "));
  EXPECT_FALSE(contains(search_html(answer, {}), "class=\"map\""));
}

}  // namespace
}  // namespace bascule::test_html_map
