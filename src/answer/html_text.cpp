// SPDX-License-Identifier: Apache-2.0
#include "src/answer/html_text.h"

#include <cmath>
#include <cstddef>
#include <cstdio>

#include "src/base/base64.h"
#include "src/base/utf8.h"
#include "src/logs/readable.h"

namespace bascule {
namespace {

// A bridge with its leaf half raised.
constexpr const char* kLogo =
    "<svg viewBox=\"0 0 34 26\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.4\" stroke-linecap=\"round\" "
    "aria-hidden=\"true\"><path d=\"M1 21h8M27 21h6M6 21V9M6 20L25 6M2.5 9h7\"/>"
    "<path d=\"M1 25c3-2 5-2 8 0s5 2 8 0 5-2 8 0 5 2 8 0\" stroke-width=\"1.4\" opacity=\".5\"/></svg>";

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
  std::string out(base64_characters(bytes.size()), '\0');
  const void* const begin = bytes.data();
  write_base64({static_cast<const std::byte*>(begin), bytes.size()}, out.data());
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

std::string percent(double share) { return readable_percent(share); }

std::string html_begin(const std::string& generator) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
         (generator.empty() ? "" : "<meta name=\"generator\" content=\"" + generator + "\">\n");
}

std::string html_page(const HtmlPage& page) {
  std::string links, sections;
  for (const HtmlSection& section : page.sections) {
    if (section.body.empty()) continue;
    if (!section.link.empty()) links += "<a href=\"#" + section.id + "\">" + section.link + "</a>";
    sections += "<section" + (section.id.empty() ? "" : " id=\"" + section.id + "\"") + ">" +
                (section.title.empty() ? "" : "<h2>" + html_escape(section.title) + "</h2>\n") +
                (section.is_card ? "<div class=\"card\">\n" + section.body + "</div>\n" : section.body) +
                "</section>\n";
  }
  const std::string title = html_escape(page.title), heading = "<h1 dir=\"auto\">" + title + "</h1>";
  return html_begin(page.generator) +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
         "'unsafe-inline'\">\n<title>" +
         title + " · " + page.product + "</title>\n<style>" + html_style() + page.style +
         "</style>\n</head>\n<body>\n<header class=\"inner\"><div class=\"brand\">" + kLogo + page.product +
         (page.note.empty() ? "" : " · " + html_escape(page.note)) + "</div>\n" +
         (page.picture.empty() ? heading : "<div class=\"asked\">" + page.picture + heading + "</div>") + "\n" +
         (page.subtitle.empty() ? "" : "<p class=\"sub\">" + page.subtitle + "</p>\n") + page.lead + "</header>\n" +
         (links.empty() ? "" : "<nav aria-label=\"Sections\"><div class=\"inner\">" + links + "</div></nav>\n") +
         "<main>\n" + sections + "</main>\n<footer class=\"inner\">Written by Bascule. " + page.footer +
         "</footer>\n</body>\n</html>\n";
}

}  // namespace bascule
