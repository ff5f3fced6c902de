// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/answer/page.h"
#include "src/answer/report.h"
#include "tests/answer/page_text.h"
#include "tests/answer/sample_report.h"

namespace bascule {
namespace {

using test::contains;
using test::count;

// Each chart from its figure element to its end.
std::vector<std::string> charts_of(const std::string& html) {
  std::vector<std::string> charts;
  const std::string begin = "<figure class=\"chart\">";
  for (std::size_t at = html.find(begin); at != std::string::npos; at = html.find(begin, at + 1))
    charts.push_back(html.substr(at, html.find("</figure>", at) - at));
  return charts;
}

std::string chart_of(const std::string& html, const std::string& title) {
  for (const std::string& chart : charts_of(html)) {
    if (contains(chart, "<figcaption><b>" + title + "</b>")) return chart;
  }
  return "";
}

TEST(Html, NoChartHasMoreThanFourLines) {
  const std::string html = report_html(test::sample_report_with_average());
  EXPECT_EQ(charts_of(html).size(), 7u);
  for (const std::string& chart : charts_of(html)) EXPECT_LE(count(chart, "<span class=\"key\">"), 4u) << chart;
  // The chart leaves out the one of a step's five parts that took least.
  const std::string phases = chart_of(html, "Time of a step, ms");
  EXPECT_TRUE(contains(phases, ">reduction <b>"));
  EXPECT_FALSE(contains(phases, "waiting for data"));
}

TEST(Html, ValuesOfAChartHaveTheirUnit) {
  const std::string html = report_html(test::sample_report_with_average());
  for (const char* title : {"Validation, %", "Validation of the averaged weights, %"}) {
    const std::string chart = chart_of(html, title);
    EXPECT_EQ(count(chart, " %</b></span>"), 4u) << title;
    EXPECT_EQ(count(chart, " %</tspan>"), 4u * 4u) << title;  // four evaluations
  }
  EXPECT_TRUE(contains(chart_of(html, "Validation, %"), "text → image, R@5 <b>55.0 %</b>"));
  EXPECT_EQ(count(chart_of(html, "Time of a step, ms"), " ms</b></span>"), 4u);
  EXPECT_FALSE(contains(chart_of(html, "Loss"), "%"));
}

TEST(Html, ReadingOfALongNameStaysInItsChart) {
  const std::string name = "runs/" + std::string(60, 'y') + "/last-part";
  std::vector<ChartPoint> points;
  for (int step = 0; step <= 20; ++step) points.push_back({static_cast<double>(step), 0.5});
  const std::string chart = line_chart({"Loss"}, {{name, points, false, false}});
  const std::string reading = "…" + name.substr(name.size() - 36) + " 0.5000</tspan>";
  EXPECT_EQ(count(chart, reading), points.size());
  EXPECT_EQ(count(chart, "<title>step 7 · " + name + " 0.5000"), 1u) << "its tooltip has the whole name";
  // 44 letters of 10 units in a chart of 560.
  EXPECT_EQ(count(chart, "<tspan x=\"120\">"), 8u) << "from the left";
  EXPECT_EQ(count(chart, "<tspan x=\"440\">"), 6u) << "to the right";
}

TEST(Html, FiguresThatAreNoFractionsHaveAChartOfTheirOwnWithoutPercent) {
  constexpr Metric kFigures[] = {{"accuracy", "accuracy", 0, true, false, 0, 1},
                                 {"part", "loss of a part", 1, false, true, 0, 2}};
  Report report = test::sample_report();
  report.metrics = {kFigures, std::size(kFigures)};
  for (EvaluationRecord& record : report.evaluations) record[kFigures[1]] = 1.25;
  const std::string html = report_html(report);
  EXPECT_FALSE(contains(chart_of(html, "Validation, %"), "loss of a part"));
  EXPECT_TRUE(contains(chart_of(html, "Validation"), "loss of a part <b>1.2500</b>")) << "a line alone has its name";
  EXPECT_TRUE(contains(chart_of(html, "Gradient norm"), "last <b>")) << "which is that of the chart";
}

// Of the units of the drawing: numbers of six characters do not fit into the margin of four.
TEST(LineChart, LongNumbersOfTheAxisHaveAWiderMargin) {
  const auto left_of = [](double most) {
    const std::string chart = line_chart({"Rate"}, {{"Rate", {{0, 0.0}, {9, most}}, false, false}});
    return std::stod(chart.substr(chart.find("x1=\"") + 4));
  };
  EXPECT_EQ(left_of(60.0), 54.0);
  EXPECT_GT(left_of(0.0005), 54.0 + 18.0);
  EXPECT_GT(left_of(5e6), left_of(0.0005));
}

TEST(NiceTicks, CoverTheRangeWithAFewRoundValues) {
  for (const double low : {-3.7, 0.0, 1e-9, 0.02, 5.0, 1e6}) {
    for (const double size : {1e-12, 1e-5, 0.3, 1.0, 7.7, 1234.0, 1e9}) {
      const std::vector<double> ticks = nice_ticks(low, low + size);
      ASSERT_GE(ticks.size(), 2u) << low << " " << size;
      ASSERT_LE(ticks.size(), 9u) << low << " " << size;
      const double slack = (ticks[1] - ticks[0]) * 1e-6;
      EXPECT_LE(ticks.front(), low + slack);
      EXPECT_GE(ticks.back(), low + size - slack);
    }
  }
  EXPECT_GE(nice_ticks(0.0, 0.0).size(), 2u);
  EXPECT_GE(nice_ticks(5.0, 5.0).size(), 2u);
}

TEST(LineChart, LossesThatAreNotFiniteLeaveAGapAndNoBrokenNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity}) {
    const std::string chart = line_chart({"Loss"}, {{"a", {{1, 1.0}, {2, bad}, {3, 2.0}}, true, true}});
    EXPECT_FALSE(contains(chart, "nan"));
    EXPECT_FALSE(contains(chart, "inf"));
    const std::string all_bad = line_chart({"Loss"}, {{"a", {{1, bad}}, false, false}});
    EXPECT_FALSE(contains(all_bad, "nan"));
    EXPECT_FALSE(contains(all_bad, "inf"));
  }
}

TEST(LineChart, OnePointOrNoneIsDrawnOrLeftOut) {
  EXPECT_EQ(line_chart({"Loss"}, {{"a", {}, false, false}}), "");
  const std::string one_step = line_chart({"Loss"}, {{"a", {{7, 0.5}}, true, false}});
  EXPECT_EQ(test::unbalanced(one_step), "");
  EXPECT_EQ(count(one_step, "<path class=\"mark"), 1u);
  EXPECT_EQ(count(line_chart({"Loss"}, {{"a", {{7, 0.5}, {8, 0.4}}, true, false}}), "<path class=\"mark"), 0u);
}

TEST(LineChart, TheCaptionHasTheLastValueOfEachSeries) {
  const std::string alone = line_chart({"Loss"}, {{"a", {{1, 0.5}, {2, 1234.5}}, false, false}});
  EXPECT_TRUE(contains(alone, "a <b>1,234.5</b>"));
  const std::string two =
      line_chart({"Loss"}, {{"a", {{1, 0.5}, {2, 0.25}}, false, false}, {"b", {{2, 0.75}}, false, true}});
  EXPECT_TRUE(contains(two, "a <b>0.2500</b>"));
  EXPECT_TRUE(contains(two, "b <b>0.7500</b>"));
}

TEST(LineChart, LargeTicksHaveSeparators) {
  const std::string chart = line_chart({"Loss"}, {{"a", {{1, 0.0}, {20000, 50000.0}}, false, false}});
  EXPECT_TRUE(contains(chart, ">50,000</text>"));
  EXPECT_TRUE(contains(chart, ">20,000</text>"));
}

TEST(LineChart, ALongRunStaysSmallAndKeepsItsExtremes) {
  ChartSeries series{"a", {}, false, false};
  for (int i = 0; i < 100000; ++i) series.points.push_back({static_cast<double>(i), i == 51234 ? 9.0 : 1.0});
  const std::string chart = line_chart({"Loss"}, {series});
  EXPECT_LT(chart.size(), 80000u);
  // The vertical axis runs from 0 to 10 over 222 units above 236, the horizontal one over 492 units from 54.
  EXPECT_TRUE(contains(chart, "L" + html_number(54.0 + 51234.0 / 99999.0 * 492.0) + " " + html_number(236.0 - 199.8)));
}

}  // namespace
}  // namespace bascule
