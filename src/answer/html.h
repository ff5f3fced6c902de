// SPDX-License-Identifier: Apache-2.0
// report.html: the whole run on one page, in one file that asks for nothing from anywhere: pictures are data URIs,
// charts are inline SVG, light and dark follow the reader. Everything that comes from outside is escaped. Finish phase:
// allocates; the text is about 250 KB plus 4/3 of the embedded pictures' bytes.
#pragma once

#include <string>

#include "src/answer/report.h"

namespace bascule {

std::string report_html(const Report& report);

}  // namespace bascule
