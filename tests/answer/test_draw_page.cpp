// SPDX-License-Identifier: Apache-2.0
#include "src/answer/result_pages.h"

#include <string>

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(DrawPage, OperationsStandBesideTheirLimitsWhereTheseAreMeasured) {
  DrawPage page;
  page.operations = {{"linear", 50, 4.0, 100e9, 0.0, 3.0}, {"scale", 50, 0.0, 0.0, 0.0, 0.0}};
  const std::string with = draw_html(page);
  EXPECT_NE(with.find("<th scope=\"col\" class=\"n\">of its limit</th>"), std::string::npos);
  EXPECT_NE(with.find("<th scope=\"row\">linear</th><td class=\"n\">50</td><td class=\"n\">4.00 s</td><td "
                      "class=\"n\">100.0 %</td><td class=\"bar\"><span style=\"width:100%\"></span></td><td "
                      "class=\"n\">25</td><td class=\"n\">75.0 %</td>"),
            std::string::npos)
      << with.substr(with.find("<th scope=\"row\">linear"), 200);
  EXPECT_NE(with.find("measured before the run"), std::string::npos);
  page.operations.front().limit_seconds = 0.0;
  EXPECT_EQ(draw_html(page).find("limit"), std::string::npos);
}

// It names files in links alone.
TEST(DrawPage, HoldsThePicturesItself) {
  DrawPage page;
  page.pictures = {{"0.png", "a <cat>", "<dog>", "seed 1", {0x89, 'P', 'N', 'G'}}, {"1.png", "gone", "", "seed 2", {}}};
  page.all_pictures = 3;
  page.width = 128;
  page.height = 64;
  const std::string html = draw_html(page);
  const std::size_t policy = html.find(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'\">");
  EXPECT_LT(policy, html.find("<title>")) << "a browser loads nothing before it";
  EXPECT_NE(html.find("<a href=\"0.png\"><img src=\"data:image/png;base64,iVBORw==\" alt=\"a &lt;cat&gt;\" "
                      "style=\"aspect-ratio:128/64\"></a>"),
            std::string::npos);
  EXPECT_NE(html.find("<a href=\"1.png\">1.png</a>"), std::string::npos);
  EXPECT_NE(html.find(">not: &lt;dog&gt;</p><code>"), std::string::npos);
  EXPECT_NE(html.find(">gone</p><code>"), std::string::npos);
  for (std::size_t at = html.find("src="); at != std::string::npos; at = html.find("src=", at + 1))
    EXPECT_EQ(html.compare(at, 10, "src=\"data:"), 0) << html.substr(at, 40);
  page.pictures.front().prompt = std::string(399, 'a') + "é";
  EXPECT_NE(draw_html(page).find("alt=\"" + std::string(399, 'a') + "…\""), std::string::npos);
  EXPECT_NE(html.find("1 more lie in the folder"), std::string::npos);
}

}  // namespace
}  // namespace bascule
