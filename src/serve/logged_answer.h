// SPDX-License-Identifier: Apache-2.0
// An answer of a line of the access log, and the answer that this program gives to the same request, over the same
// connection, reader and batches as a service. Before the seal; throws Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

struct LoggedAnswer {
  std::string path, content_type;
  std::int64_t status = 0;
  std::string model, request, answer;  // digests
  std::optional<std::string> body;     // of the request, where the log has it

  // Whether the model decided on it: not the load, or a client that went.
  bool is_of_model() const { return status != 429 && status != 499 && status != 503; }
};

// Reads the whole log. line: from 1. broken: a text for each line that does not continue the one before it. Throws
// Error: kData.
LoggedAnswer read_logged_answer(const std::string& log, std::int64_t line, std::vector<std::string>* broken);

struct ComputedAnswer {
  std::int64_t status = 0;
  std::string model;  // digest
  std::string body;
};

// Serves that one request, where no other process can ask. service: the settings with which it was answered; where it
// listens, its key, its log and its limits of time do not count.
ComputedAnswer compute_answer(Settings settings, const LoggedAnswer& logged, const std::string& body);

}  // namespace bascule
