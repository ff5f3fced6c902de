// SPDX-License-Identifier: Apache-2.0
#include "src/answer/html_text.h"

#include <cmath>
#include <cstddef>
#include <cstdio>

#include "src/base/utf8.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string html_escape(const std::string& text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_bytes_at(text, at);
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
  const bool is_webp = file.size() > 1 && file[0] == 'R' && file[1] == 'I';
  return std::string("data:image/") + (is_png ? "png" : is_webp ? "webp" : "jpeg") + ";base64," + base64(file);
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

std::string score_text(double score) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", score);
  return text;
}

std::string text_head(const std::string& name) { return "<th scope=\"col\">" + html_escape(name) + "</th>"; }

std::string number_head(const std::string& name) {
  return "<th scope=\"col\" class=\"n\">" + html_escape(name) + "</th>";
}

std::string number_cell(const std::string& value) { return "<td class=\"n\">" + value + "</td>"; }

std::string percent(double share) { return readable_percent(share).c_str(); }

std::string wide_table(const std::string& label, const std::string& head, const std::string& body, bool tall) {
  return std::string("<div class=\"wide") + (tall ? " tall" : "") + "\" tabindex=\"0\" role=\"region\" aria-label=\"" +
         html_escape(label) + "\"><table><thead><tr>" + head + "</tr></thead><tbody>\n" + body +
         "</tbody></table></div>\n";
}

std::string html_begin(const std::string& generator) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
         (generator.empty() ? "" : "<meta name=\"generator\" content=\"" + generator + "\">\n");
}

std::string html_page(const HtmlPage& page) {
  return html_begin(page.generator) +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
         "'unsafe-inline'\">\n<title>" +
         page.title + " · " + page.product + "</title>\n<style>" + html_style() + page.style +
         "</style>\n</head>\n<body>\n" + page.header + "<main>\n" + page.main +
         "</main>\n<footer class=\"inner\">Written by Bascule. " + page.footer + "</footer>\n</body>\n</html>\n";
}

}  // namespace bascule
