// SPDX-License-Identifier: Apache-2.0
// The access log: a JSON line for each answer, with the SHA-256 of request and answer, and in each line the SHA-256 of
// the line before it, so that none can be changed or taken out unseen. The constructor belongs before the seal;
// the rest allocates nothing. Each line is one write(2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/digest.h"
#include "src/settings/settings.h"

namespace bascule {

struct AccessRecord {
  std::string_view path, content_type;
  std::string_view request, answer;  // bodies
  int status = 0;
  std::int64_t inputs = 0, batch_inputs = 0;
  double unix_seconds = 0.0;
  double queue_ms = 0.0, inference_ms = 0.0, total_ms = 0.0;
};

// As digests are written in headers and in the log: "sha256:" and 64 hexadecimal digits.
class Sha256Text {
 public:
  Sha256Text() noexcept = default;  // of nothing: empty
  explicit Sha256Text(Sha256* sum) noexcept;
  explicit Sha256Text(std::string_view bytes) noexcept;
  std::string_view text() const noexcept { return {text_, bytes_}; }

 private:
  char text_[72] = {};
  std::size_t bytes_ = 0;
};

class AccessLog {
 public:
  AccessLog() = default;  // keeps nothing
  // Appends to the file, whose last line the next one continues. keeps_requests: the bodies of requests, of at most
  // most_bytes. model: of every line. Throws Error kDisk.
  AccessLog(const std::string& path, bool keeps_requests, std::size_t most_bytes, std::string model);

  // The memory of a log that keeps requests, or not.
  static std::size_t bytes(bool keeps_requests, std::size_t most_bytes);

  void add(const AccessRecord& record) noexcept;
  // Lines that could not be written.
  std::uint64_t lost() const noexcept { return lost_; }

 private:
  void continue_file(const std::string& path);

  Descriptor file_;
  bool keeps_requests_ = false;
  std::string model_;
  std::vector<char> line_;
  Sha256Text previous_;
  std::uint64_t sequence_ = 0, lost_ = 0;
};

// An answer of a line of the access log, and the answer that this program gives to the same request, over the same
// connection, reader and batches as a service. Before the seal; throws Error.

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
