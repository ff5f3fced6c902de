// SPDX-License-Identifier: Apache-2.0
// Text made safe for HTML, and bytes for data URIs. Finish phase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

// For element content and for attribute values in double quotes: & < > " ' are escaped; bytes that are not UTF-8 and
// control characters become U+FFFD (line breaks and tabs a space).
std::string html_escape(const std::string& text);

std::string base64(const std::vector<std::uint8_t>& bytes);
// A picture file inside the page: "data:image/png;base64,...".
std::string picture_url(const std::vector<std::uint8_t>& file);

// A coordinate or width with at most two decimals and no trailing zeros: "12.5".
std::string html_number(double value);
// A cosine with three decimals: "0.712".
std::string score_text(double score);

}  // namespace bascule
