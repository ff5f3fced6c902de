// SPDX-License-Identifier: Apache-2.0
#include "src/answer/result_pages.h"

#include <string>

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(SearchPage, TextFromOutsideIsEscapedWhereverItStands) {
  SearchAnswer answer;
  answer.model = "runs/<b>model</b>";
  answer.query = "<b>query</b>";
  answer.searched = "<b>searched</b>";
  answer.hits = {{"<b>path</b>.jpg", "<b>caption</b>", 0.5, true}};
  answer.refused = {{"<b>refused</b>.jpg", "<b>reason</b>"}};
  for (const int kind : {0, 1, 2}) {
    answer.from_picture = kind == 1;
    answer.of_texts = kind == 2;
    const std::string page =
        search_html(answer, answer.of_texts ? SearchPictures() : SearchPictures{{1, 2}, {{1, 2, 3}}});
    for (const char* const part : {"query", "path", "caption", "refused", "reason"}) {
      EXPECT_EQ(page.find("<b>" + std::string(part)), std::string::npos) << part;
      EXPECT_NE(page.find("&lt;b&gt;" + std::string(part)), std::string::npos) << part;
    }
    EXPECT_EQ(page.find("<b>searched"), std::string::npos);
    EXPECT_EQ(page.find("<b>model"), std::string::npos);
    EXPECT_NE(page.find("<p dir=\"auto\">&lt;b&gt;caption"), std::string::npos);
    EXPECT_EQ(page.find("<div class=\"picture\">") == std::string::npos, answer.of_texts);
  }
}

}  // namespace
}  // namespace bascule
