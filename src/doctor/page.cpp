// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/finding.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <vector>

#include "src/base/paths.h"
#include "src/pictures/picture_decoder.h"

namespace bascule {
namespace {

constexpr std::int64_t kShownSide = 96;  // pixels of a copy, which is squeezed into a square
constexpr double kElementSide = 64.0;    // the longer side on the page

constexpr const char* kStyle = R"css(
.finding{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px;margin:0 0 12px;break-inside:avoid}
.finding h3{margin:0 0 4px;font-size:15px}.finding p{margin:0 0 8px;color:var(--soft)}
.level{font-size:12px;font-weight:620;border-radius:99px;padding:1px 10px;margin-right:8px;background:var(--wash);color:var(--ink)}
.is-fails .level{background:var(--bad-wash);color:var(--bad)}.is-fails{border-color:var(--bad)}
.examples{list-style:none;margin:0;padding:0}.examples li{display:flex;gap:10px;align-items:center;padding:5px 0;border-top:1px solid var(--line);min-width:0}
.examples img{flex:none;object-fit:fill;border-radius:6px;background:var(--wash)}
.examples code{min-width:0;overflow-wrap:anywhere}
)css";

// Pictures as small PNG files, each decoded once.
class Shown {
 public:
  // An <img> in the picture's proportions; "" for a picture that cannot be decoded.
  std::string element(const std::string& path) {
    const auto [place, is_new] = elements_.try_emplace(path);
    if (is_new) place->second = element_of(path);
    return place->second;
  }

 private:
  std::string element_of(const std::string& path) {
    PictureDecoder::Size size;
    const std::vector<std::uint8_t> file = maker_.make(path, &size);
    if (file.empty()) return "";
    if (size.width == 0) size = {1, 1};  // unknown
    const double longest = static_cast<double>(std::max(size.width, size.height));
    const auto pixels = [&](std::int64_t side) {
      return html_number(std::max(1.0, std::round(kElementSide * static_cast<double>(side) / longest))) + "px";
    };
    return "<img src=\"" + picture_url(file) + "\" alt=\"" + html_escape(shown_path(path)) +
           "\" style=\"width:" + pixels(size.width) + ";height:" + pixels(size.height) + "\">";
  }

  ThumbnailMaker maker_{kShownSide, CopyKind::kSqueezed};
  std::map<std::string, std::string> elements_;
};

std::string finding_html(const Finding& finding, Shown* shown) {
  std::string out = std::string("<article class=\"finding is-") + level_name(finding.level) +
                    "\"><h3><span class=\"level\">" + level_name(finding.level) + "</span> " +
                    html_escape(finding.what) + "</h3>\n";
  if (!finding.what_to_do.empty()) out += "<p>" + html_escape(finding.what_to_do) + "</p>\n";
  if (finding.examples.empty()) return out + "</article>\n";
  out += "<ul class=\"examples\">\n";
  for (std::size_t i = 0; i < std::min(kMostExamples, finding.examples.size()); ++i) {
    const Example& example = finding.examples[i];
    out += "<li>";
    for (const std::string& picture : example.pictures) out += shown->element(picture);
    out += "<code dir=\"auto\">" + html_escape(example.text) + "</code></li>\n";
  }
  return out + "</ul></article>\n";
}

std::string classes_table(const std::vector<SplitFigures>& splits) {
  std::map<std::string, std::vector<std::int64_t>> rows;
  for (std::size_t split = 0; split < splits.size(); ++split) {
    for (const ClassCount& one : splits[split].classes) {
      std::vector<std::int64_t>& counts = rows[one.name];
      counts.resize(splits.size());
      counts[split] = one.rows;
    }
  }
  Table table{"Rows of each class", {"class"}};
  for (const SplitFigures& split : splits) table.columns.push_back(number(split.name));
  for (const auto& [name, counts] : rows) {
    table.rows.push_back({name});
    for (const std::int64_t count : counts) table.rows.back().push_back(count_text(count));
  }
  return html_of(table);
}

std::string data_section(const Diagnosis& diagnosis) {
  std::string out;
  for (const SplitFigures& split : diagnosis.splits) {
    out += "<h3>" + html_escape(split.name) + "</h3>\n<p class=\"lead\">" + counted(split.rows, "row") + ", " +
           html_escape(split.file) + "</p>\n";
    out += html_of(lines_of(split));
  }
  const std::vector<NamedText> lines = lines_of(diagnosis);
  return out + (lines.empty() ? "" : "<h3>run</h3>\n" + html_of(lines));
}

std::string lengths_section(const Diagnosis& diagnosis) {
  std::string tables;
  for (const SplitFigures& split : diagnosis.splits) {
    for (const TextFigures& figures : split.texts) tables += html_with_heading(lengths_of(figures, split));
  }
  return tables;
}

constexpr char kGenerator[] = "bascule doctor";

}  // namespace

bool is_diagnosis_page(const std::string& file) {
  const std::string wanted = html_begin(kGenerator);
  std::string begin(wanted.size(), '\0');
  std::ifstream(file, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == wanted;
}

std::string diagnosis_html(const Diagnosis& diagnosis) {
  Shown shown;
  std::string findings;
  for (const Finding& finding : diagnosis.findings) findings += finding_html(finding, &shown);
  HtmlPage page;
  page.product = "Bascule doctor";
  page.generator = kGenerator;
  page.title = diagnosis.settings_file;
  page.style = kStyle;
  page.subtitle = html_escape(verdict_of(diagnosis));
  page.sections = {{"Findings", findings, false},
                   {"Data", data_section(diagnosis)},
                   {"Classes", classes_table(diagnosis.splits)},
                   {"Lengths", lengths_section(diagnosis)}};
  return html_page(page);
}

}  // namespace bascule
