// SPDX-License-Identifier: Apache-2.0
// The page of a service, for people: one HTML file without anything from elsewhere. Before the seal.
#pragma once

#include <string>

#include "src/serve/served_model.h"

namespace bascule {

struct ServedPage {
  std::string html;
  std::string headers;  // Content-Security-Policy: the page's own script and style, and requests to this service
};

ServedPage served_page(const ServedModel& model, const std::string& name);

}  // namespace bascule
