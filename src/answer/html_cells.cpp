// SPDX-License-Identifier: Apache-2.0
#include "src/answer/html_cells.h"

#include "src/answer/html_text.h"
#include "src/logs/readable.h"

namespace bascule {

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

}  // namespace bascule
