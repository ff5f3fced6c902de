// SPDX-License-Identifier: Apache-2.0
// Charts of the pages.
#pragma once

#include <string>
#include <vector>

namespace bascule {

// Line charts as inline SVG: axes with round ticks, a line per series, and a reading that appears where the pointer is,
// made with style sheets alone (no script). Lines differ in colour, dashes and the shape of their marks, which come
// from the page's style sheet. Finish phase.

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;  // not finite: a gap
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // x ascending
  bool smooth = false;             // draw the points pale and a running mean over them
  bool marks = false;              // a few points, each with a mark: evaluations
};

struct ChartOptions {
  std::string title;
  std::string x_name = "step";
  // The horizontal axis covers this range and the points; empty where the points alone decide.
  double x_low = 0.0;
  double x_high = 0.0;
  std::string unit = "";   // behind every value, as "%" or "ms"; may be empty
  bool from_zero = false;  // the vertical axis begins at 0
  bool fill = false;       // tint the area under the first series
};

// A <figure> element; its caption has the last value of each series. Points beyond what a chart can show are thinned
// (extremes of each stretch are kept).
// "" if no series has a point.
std::string line_chart(const ChartOptions& options, const std::vector<ChartSeries>& series);

// Round tick values covering [low, high]; between 3 and 8 of them; at least two even if low == high.
std::vector<double> nice_ticks(double low, double high);

// Titles of the charts that the report of a run and the page of several runs have in common.

inline constexpr char kLossTitle[] = "Loss";
inline constexpr char kLearningRateTitle[] = "Learning rate";
inline constexpr char kGradientNormTitle[] = "Gradient norm";
inline constexpr char kSamplesTitle[] = "Samples/s";

}  // namespace bascule
