// SPDX-License-Identifier: Apache-2.0
#include "src/answer/page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

// The drawing, in units of its view box.
constexpr double kWidth = 560.0;
constexpr double kHeight = 280.0;
constexpr double kLeast = 54.0;  // left of the plot; more where the numbers there are long
constexpr double kRight = 546.0;
constexpr double kTop = 14.0;
constexpr double kBottom = 236.0;
// As many as can still be told apart.
constexpr std::size_t kLineStretches = 240;
constexpr std::size_t kReadings = 80;
constexpr std::size_t kReadingName = 36;  // bytes of a name in a reading
constexpr double kReadingLetter = 10.0;   // about the width of a letter in the largest type of a reading

struct Axes {
  std::vector<double> x_ticks;
  std::vector<double> y_ticks;
  double x_low = 0.0;
  double x_high = 1.0;
  double left = kLeast;

  double across(double x) const { return left + (x - x_low) / (x_high - x_low) * (kRight - left); }
  double up(double y) const {
    return kBottom - (y - y_ticks.front()) / (y_ticks.back() - y_ticks.front()) * (kBottom - kTop);
  }
};

std::string tick_text(double value, double spacing) {
  const double largest = std::max(std::fabs(value), spacing);
  if (value == 0.0) return "0";
  if (largest < 1e-3 || largest >= 1e7) return formatted("%.3g", value);
  if (spacing >= 1.0) return readable_count(std::llround(value));
  int decimals = 0;
  for (double rest = spacing; rest < 1.0 - 1e-9 && decimals < 8; rest *= 10.0) ++decimals;
  return formatted("%.*f", decimals, value);
}

// A value of a series with its unit. One decimal of a percentage is all that anybody reads.
std::string value_text(const ChartOptions& options, double value) {
  if (options.unit == "%") return readable_percent(value / 100.0);
  const std::string number = readable_number(value);
  return options.unit.empty() ? number : number + " " + options.unit;
}

Axes make_axes(const ChartOptions& options, const std::vector<ChartSeries>& series) {
  const double infinity = std::numeric_limits<double>::infinity();
  double low = infinity;
  double high = -infinity;
  Axes axes;
  axes.x_low = options.x_low < options.x_high ? options.x_low : infinity;
  axes.x_high = options.x_low < options.x_high ? options.x_high : -infinity;
  for (const ChartSeries& one : series) {
    for (const ChartPoint& point : one.points) {
      axes.x_low = std::min(axes.x_low, point.x);
      axes.x_high = std::max(axes.x_high, point.x);
      if (!std::isfinite(point.y)) continue;
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  if (low > high) low = high = 0.0;
  if (options.from_zero) low = std::min(low, 0.0);
  axes.y_ticks = nice_ticks(low, high);
  constexpr double kDigit = 11.5;  // the width of one in the largest type of the style sheet
  for (const double tick : axes.y_ticks) {
    const std::string text = tick_text(tick, axes.y_ticks[1] - axes.y_ticks[0]);
    axes.left = std::max(axes.left, 10.0 + kDigit * static_cast<double>(text.size()));
  }
  if (axes.x_low == axes.x_high) {
    axes.x_low -= 1.0;
    axes.x_high += 1.0;
  }
  // The horizontal axis ends with the data, not with a tick.
  for (const double tick : nice_ticks(axes.x_low, axes.x_high)) {
    if (tick >= axes.x_low && tick <= axes.x_high) axes.x_ticks.push_back(tick);
  }
  return axes;
}

// Lowest and highest point of each stretch, in order: the line looks the same, with far fewer points.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points) {
  if (points.size() <= 2 * kLineStretches) return points;
  std::vector<ChartPoint> out;
  for (std::size_t stretch = 0; stretch < kLineStretches; ++stretch) {
    const std::size_t begin = points.size() * stretch / kLineStretches;
    const std::size_t end = points.size() * (stretch + 1) / kLineStretches;
    std::size_t low = begin;
    std::size_t high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
  }
  return out;
}

// A centred running mean over about a thirtieth of the curve.
std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points) {
  const std::size_t reach = points.size() / 60 + 1;
  std::vector<ChartPoint> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    // The same reach on both sides, so that the ends are not pulled inwards.
    const std::size_t side = std::min({reach, i, points.size() - 1 - i});
    double sum = 0.0;
    for (std::size_t j = i - side; j <= i + side; ++j) sum += points[j].y;
    out.push_back({points[i].x, sum / static_cast<double>(2 * side + 1)});
  }
  return out;
}

std::string path_of(const Axes& axes, const std::vector<ChartPoint>& points) {
  std::string path;
  bool pen_down = false;
  for (const ChartPoint& point : points) {
    if (!std::isfinite(point.y)) {
      pen_down = false;
      continue;
    }
    path += (pen_down ? "L" : "M") + html_number(axes.across(point.x)) + " " + html_number(axes.up(point.y));
    pen_down = true;
  }
  return path;
}

void add_axes(std::string& out, const Axes& axes, const ChartOptions& options) {
  const double y_spacing = axes.y_ticks[1] - axes.y_ticks[0];
  for (const double tick : axes.y_ticks) {
    const std::string y = html_number(axes.up(tick));
    out += "<line class=\"grid\" x1=\"" + html_number(axes.left) + "\" x2=\"" + html_number(kRight) + "\" y1=\"" + y +
           "\" y2=\"" + y + "\"/><text class=\"tick\" text-anchor=\"end\" x=\"" + html_number(axes.left - 8) +
           "\" y=\"" + html_number(axes.up(tick) + 4) + "\">" + tick_text(tick, y_spacing) + "</text>\n";
  }
  const double x_spacing = axes.x_ticks.size() > 1 ? axes.x_ticks[1] - axes.x_ticks[0] : 1.0;
  for (const double tick : axes.x_ticks) {
    out += "<text class=\"tick\" text-anchor=\"middle\" x=\"" + html_number(axes.across(tick)) + "\" y=\"" +
           html_number(kBottom + 20) + "\">" + tick_text(tick, x_spacing) + "</text>\n";
  }
  out += "<text class=\"axis\" text-anchor=\"end\" x=\"" + html_number(kRight) + "\" y=\"" + html_number(kHeight - 4) +
         "\">" + html_escape(options.x_name) + "</text>\n";
}

// A shape for each of four series: circle, square, triangle, diamond.
std::string mark(std::size_t number, double x, double y) {
  static constexpr const char* kShapes[] = {"m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", "m-3.6 -3.6h7.2v7.2h-7.2Z",
                                            "m0 -4.8l4.6 8h-9.2Z", "m0 -5.2l5.2 5.2l-5.2 5.2l-5.2 -5.2Z"};
  return "<path class=\"mark c" + std::to_string(number + 1) + "\" d=\"M" + html_number(x) + " " + html_number(y) +
         kShapes[number % 4] + "\"/>";
}

// As the line is drawn: colour, dashes and marks.
std::string key_line(const ChartSeries& series, std::size_t number) {
  return "<svg viewBox=\"0 0 34 12\" aria-hidden=\"true\"><path class=\"line c" + std::to_string(number + 1) +
         "\" d=\"M1 6H33\"/>" + (series.marks ? mark(number, 17.0, 6.0) : "") + "</svg>";
}

void add_series(std::string& out, const Axes& axes, const ChartOptions& options, const ChartSeries& series,
                std::size_t number) {
  const std::string colour = "c" + std::to_string(number + 1);
  if (series.points.empty()) return;
  if (options.fill && number == 0) {
    out += "<path class=\"area " + colour + "\" d=\"" + path_of(axes, thinned(series.points)) + "L" +
           html_number(axes.across(series.points.back().x)) + " " + html_number(kBottom) + "L" +
           html_number(axes.across(series.points.front().x)) + " " + html_number(kBottom) + "Z\"/>\n";
  }
  const bool smooth = series.smooth && series.points.size() >= 30;
  out += std::string("<path class=\"line ") + (smooth ? "pale " : "") + colour + "\" d=\"" +
         path_of(axes, thinned(series.points)) + "\"/>\n";
  if (smooth) {
    out += "<path class=\"line " + colour + "\" d=\"" + path_of(axes, thinned(smoothed(series.points))) + "\"/>\n";
  }
  // A single point is no line: it gets a mark.
  if (!series.marks && series.points.size() > 1) return;
  for (const ChartPoint& point : series.points) {
    if (!std::isfinite(point.y)) continue;
    out += mark(number, axes.across(point.x), axes.up(point.y)) + "\n";
  }
}

using SeriesGroup = std::vector<std::size_t>;  // indices of series

// Series with the same places along the axis are read together.
std::vector<SeriesGroup> groups_of(const std::vector<ChartSeries>& series) {
  const auto same_place = [](const ChartPoint& a, const ChartPoint& b) { return a.x == b.x; };
  std::vector<SeriesGroup> groups;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series[i].points.empty()) continue;
    const auto fits = [&](const SeriesGroup& group) {
      const std::vector<ChartPoint>& points = series[group.front()].points;
      return std::equal(points.begin(), points.end(), series[i].points.begin(), series[i].points.end(), same_place);
    };
    const auto found = std::find_if(groups.begin(), groups.end(), fits);
    if (found == groups.end()) {
      groups.push_back({i});
    } else {
      found->push_back(i);
    }
  }
  return groups;
}

// The end of a name: that of a path tells runs apart.
std::string short_name(const std::string& name) {
  std::size_t begin = name.size() > kReadingName ? name.size() - kReadingName : 0;
  while (begin < name.size() && utf8_bytes_at(name, begin) == 0) ++begin;
  return begin == 0 ? name : "…" + name.substr(begin);
}

// Appears while the pointer is on the strip from left to right: a line, and a dot and a text for each series.
void add_reading(std::string& out, const Axes& axes, const ChartOptions& options,
                 const std::vector<ChartSeries>& series, const SeriesGroup& group, std::size_t at, double left,
                 double right) {
  const double value = series[group.front()].points[at].x;
  const std::string x = html_number(axes.across(value));
  const std::string top = html_number(kTop);
  out += "<g class=\"at\"><rect x=\"" + html_number(left) + "\" width=\"" + html_number(std::max(right - left, 0.5)) +
         "\" y=\"" + top + "\" height=\"" + html_number(kBottom - kTop) + "\"/><line x1=\"" + x + "\" x2=\"" + x +
         "\" y1=\"" + top + "\" y2=\"" + html_number(kBottom) + "\"/>";
  const bool at_right = axes.across(value) > (axes.left + kRight) / 2;
  const std::string place = options.x_name + " " + readable_count(std::llround(value)).c_str();
  const auto reading = [&](std::size_t i) {
    return short_name(series[i].name) + " " + value_text(options, series[i].points[at].y);
  };
  std::size_t letters = place.size();
  for (const std::size_t i : group) letters = std::max(letters, utf8_characters(reading(i)));
  const double width = kReadingLetter * static_cast<double>(letters), beside = axes.across(value) + (at_right ? -9 : 9);
  const std::string text_x = html_number(at_right ? std::max(beside, width) : std::min(beside, kWidth - width));
  std::string lines = "<tspan x=\"" + text_x + "\">" + html_escape(place) + "</tspan>";
  std::string title = html_escape(place);
  for (const std::size_t i : group) {
    const double y = series[i].points[at].y;
    if (!std::isfinite(y)) continue;
    const std::string colour = "c" + std::to_string(i + 1);
    out += "<circle class=\"" + colour + "\" r=\"4\" cx=\"" + x + "\" cy=\"" + html_number(axes.up(y)) + "\"/>";
    lines +=
        "<tspan class=\"" + colour + "\" x=\"" + text_x + "\" dy=\"1.3em\">" + html_escape(reading(i)) + "</tspan>";
    title += " · " + html_escape(series[i].name) + " " + value_text(options, y);
  }
  out += "<text y=\"" + html_number(kTop + 12) + (at_right ? "\" text-anchor=\"end\">" : "\">") + lines +
         "</text><title>" + title + "</title></g>\n";
}

// Strips side by side, each reaching halfway to its neighbours. Groups after the first are marks: their
// strips lie above and are narrow, so that they do not hide the first's.
void add_readings(std::string& out, const Axes& axes, const ChartOptions& options,
                  const std::vector<ChartSeries>& series) {
  const std::vector<SeriesGroup> groups = groups_of(series);
  for (const SeriesGroup& group : groups) {
    const std::vector<ChartPoint>& points = series[group.front()].points;
    const double reach = &group == &groups.front() ? kWidth : 8.0;
    const std::size_t count = std::min(points.size(), kReadings);
    // First and last point included.
    const auto index = [&](std::size_t i) { return count > 1 ? i * (points.size() - 1) / (count - 1) : 0; };
    const auto middle = [&](std::size_t i) {
      return (axes.across(points[index(i)].x) + axes.across(points[index(i + 1)].x)) / 2;
    };
    for (std::size_t i = 0; i < count; ++i) {
      const double x = axes.across(points[index(i)].x);
      const double left = std::max(i == 0 ? axes.left : middle(i - 1), x - reach);
      const double right = std::min(i + 1 == count ? kRight : middle(i), x + reach);
      add_reading(out, axes, options, series, group, index(i), left, right);
    }
  }
}

}  // namespace

std::vector<double> nice_ticks(double low, double high) {
  if (!(high - low > std::fabs(high) * 1e-9)) {
    const double room = high == 0.0 ? 1.0 : std::fabs(high) * 0.1;
    low -= room;
    high += room;
  }
  const double raw = (high - low) / 5.0;
  double magnitude = 1.0;  // the largest power of ten that is not above `raw`
  while (magnitude > raw) magnitude /= 10.0;
  while (magnitude * 10.0 <= raw && magnitude < 1e300) magnitude *= 10.0;
  const double rest = raw / magnitude;
  const double spacing = (rest < 1.5 ? 1.0 : rest < 3.5 ? 2.0 : rest < 7.5 ? 5.0 : 10.0) * magnitude;
  std::vector<double> ticks;
  const double first = std::floor(low / spacing + 1e-9);
  const double last = std::ceil(high / spacing - 1e-9);
  for (double number = first; number <= last; number += 1.0) ticks.push_back(number * spacing);
  return ticks;
}

std::string line_chart(const ChartOptions& options, const std::vector<ChartSeries>& series) {
  const bool has_points =
      std::any_of(series.begin(), series.end(), [](const ChartSeries& one) { return !one.points.empty(); });
  if (!has_points) return "";
  const Axes axes = make_axes(options, series);
  std::string out = "<figure class=\"chart\"><figcaption><b>" + html_escape(options.title) + "</b>";
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series[i].points.empty()) continue;
    out += "<span class=\"key\">";
    const bool is_named_by_title = series.size() == 1 && series[i].name == options.title;
    out += is_named_by_title ? "last " : key_line(series[i], i) + html_escape(series[i].name) + " ";
    out += "<b>" + value_text(options, series[i].points.back().y) + "</b></span>";
  }
  out += "</figcaption>\n<svg viewBox=\"0 0 " + html_number(kWidth) + " " + html_number(kHeight) +
         "\" role=\"img\" aria-label=\"" + html_escape(options.title) + " by " + html_escape(options.x_name) + "\">\n";
  add_axes(out, axes, options);
  for (std::size_t i = 0; i < series.size(); ++i) add_series(out, axes, options, series[i], i);
  add_readings(out, axes, options, series);
  return out + "</svg></figure>\n";
}

}  // namespace bascule
