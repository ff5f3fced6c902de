// SPDX-License-Identifier: Apache-2.0
#include "src/report/html_text.h"

#include <cmath>
#include <cstddef>
#include <cstdio>

namespace bascule {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

// Length of the well-formed UTF-8 character at `at` (1 to 4), 0 if there is none (Unicode 15, table 3-7).
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[at + i])) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool shortest = lead != 0xe0 || byte(1) >= 0xa0;
    const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
    return shortest && !surrogate && follows(1) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool shortest = lead != 0xf0 || byte(1) >= 0x90;
    const bool in_range = lead != 0xf4 || byte(1) <= 0x8f;
    return shortest && in_range && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string html_escape(const std::string& text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const unsigned char c = static_cast<unsigned char>(text[at]);
    if (length > 1) {
      out.append(text, at, length);
    } else if (length == 0 || c == 0x7f || (c < 0x20 && c != '\n' && c != '\r' && c != '\t')) {
      out += kReplacement;
    } else {
      switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        case '\n':
        case '\r':
        case '\t': out += ' '; break;
        default: out += text[at];
      }
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string base64(const std::vector<std::uint8_t>& bytes) {
  static const char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = bytes.size() - at < 3 ? bytes.size() - at : 3;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? bytes[at + i] : 0u);
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? kDigits[group >> (18 - 6 * i) & 63u] : '=';
  }
  return out;
}

std::string picture_url(const std::vector<std::uint8_t>& file) {
  const bool is_png = file.size() > 1 && file[0] == 0x89 && file[1] == 'P';
  return std::string("data:image/") + (is_png ? "png" : "jpeg") + ";base64," + base64(file);
}

std::string html_number(double value) {
  if (!std::isfinite(value)) return "0";
  char text[48];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string out = text;
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

}  // namespace bascule
