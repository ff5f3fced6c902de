// SPDX-License-Identifier: Apache-2.0
#include "src/base/readable.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ctime>

namespace bascule {
namespace {

// Copies `length` characters of a number, with commas within the first `whole`, the part before the decimal point.
void separate_thousands(const char* number, int length, int whole, ShortText* out) noexcept {
  std::size_t at = 0;
  for (int i = 0; i < length; ++i) {
    const bool after_sign = i == 0 || (i == 1 && number[0] == '-');
    if (!after_sign && i < whole && (whole - i) % 3 == 0) out->text[at++] = ',';
    out->text[at++] = number[i];
  }
}

}  // namespace

ShortText readable_bytes(std::uint64_t bytes) noexcept {
  ShortText out;
  if (bytes < 1024) {
    std::snprintf(out.text, sizeof out.text, "%llu B", static_cast<unsigned long long>(bytes));
    return out;
  }
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < sizeof kUnits / sizeof kUnits[0]) {
    value /= 1024.0;
    ++unit;
  }
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(out.text, sizeof out.text, "%.*f %s", digits, value, kUnits[unit]);
  return out;
}

ShortText readable_seconds(double seconds) noexcept {
  ShortText out;
  if (!std::isfinite(seconds) || seconds < 0.0 || seconds > 1e11) {
    std::snprintf(out.text, sizeof out.text, "n/a");
  } else if (seconds == 0.0) {
    std::snprintf(out.text, sizeof out.text, "0 s");
  } else if (seconds < 0.9995) {
    const double milliseconds = seconds * 1e3;
    const int digits = milliseconds < 9.995 ? 2 : milliseconds < 99.95 ? 1 : 0;
    std::snprintf(out.text, sizeof out.text, "%.*f ms", digits, milliseconds);
  } else if (seconds < 59.95) {
    std::snprintf(out.text, sizeof out.text, seconds < 9.995 ? "%.2f s" : "%.1f s", seconds);
  } else if (seconds < 3599.5) {
    const long long whole = std::llround(seconds);
    std::snprintf(out.text, sizeof out.text, "%lld min %02lld s", whole / 60, whole % 60);
  } else if (seconds < 86370.0) {
    const long long minutes = std::llround(seconds / 60.0);
    std::snprintf(out.text, sizeof out.text, "%lld h %02lld min", minutes / 60, minutes % 60);
  } else {
    const long long hours = std::llround(seconds / 3600.0);
    std::snprintf(out.text, sizeof out.text, "%lld d %02lld h", hours / 24, hours % 24);
  }
  return out;
}

ShortText readable_count(std::int64_t count) noexcept {
  char digits[24];
  const int length = std::snprintf(digits, sizeof digits, "%lld", static_cast<long long>(count));
  ShortText out;
  separate_thousands(digits, length, length, &out);
  return out;
}

ShortText readable_number(double value) noexcept {
  ShortText out;
  const double size = std::fabs(value);
  if (!std::isfinite(value)) {
    std::snprintf(out.text, sizeof out.text, "n/a");
  } else if (size == 0.0) {
    std::snprintf(out.text, sizeof out.text, "0");
  } else if (size < 1e-3 || size >= 1e6) {
    std::snprintf(out.text, sizeof out.text, "%.3e", value);
  } else {
    const int digits = size < 9.9995 ? 4 : size < 99.995 ? 2 : size < 9999.5 ? 1 : 0;
    if (size < 999.95) {
      std::snprintf(out.text, sizeof out.text, "%.*f", digits, value);
    } else {
      char plain[32];
      const int length = std::snprintf(plain, sizeof plain, "%.*f", digits, value);
      separate_thousands(plain, length, digits == 0 ? length : length - digits - 1, &out);
    }
  }
  return out;
}

ShortText readable_percent(double fraction) noexcept {
  ShortText out;
  if (!std::isfinite(fraction) || std::fabs(fraction) > 1e9) {
    std::snprintf(out.text, sizeof out.text, "n/a");
  } else {
    std::snprintf(out.text, sizeof out.text, "%.1f %%", 100.0 * fraction);
  }
  return out;
}

ShortText can_deliver(double samples_per_second) noexcept {
  if (std::isnan(samples_per_second)) return {"loading was not measured"};
  ShortText text;
  std::snprintf(text.text, sizeof text.text, "can deliver %.9s samples/s", readable_number(samples_per_second).c_str());
  return text;
}

ShortText utc_now(const char* format) noexcept {
  ShortText out;
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(out.text, sizeof out.text, format, &utc);
  return out;
}

const std::string* find_value(const std::vector<NamedText>& texts, std::string_view name) {
  const auto found = std::find_if(texts.begin(), texts.end(), [&](const NamedText& one) { return one.name == name; });
  return found == texts.end() ? nullptr : &found->value;
}

}  // namespace bascule
