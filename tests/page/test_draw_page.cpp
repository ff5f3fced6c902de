// SPDX-License-Identifier: Apache-2.0
#include "src/page/draw_page.h"

#include <string>

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(DrawPage, OperationsStandBesideTheirLimitsWhereTheseAreMeasured) {
  DrawPage page;
  page.operations = {{"linear", 4.0, 100e9, 3.0}, {"scale", 0.0, 0.0, 0.0}};
  const std::string with = draw_html(page);
  EXPECT_NE(with.find("<th scope=\"col\">of its limit</th>"), std::string::npos);
  EXPECT_NE(with.find("<th scope=\"row\">linear</th><td>4.00 s</td><td>100.0 %</td><td>25.00</td><td>75.0 %</td>"),
            std::string::npos)
      << with.substr(with.find("<th scope=\"row\">linear"), 200);
  EXPECT_NE(with.find("measured before the run"), std::string::npos);
  page.operations.front().limit_seconds = 0.0;
  EXPECT_EQ(draw_html(page).find("limit"), std::string::npos);
}

}  // namespace
}  // namespace bascule
