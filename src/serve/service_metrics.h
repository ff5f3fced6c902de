// SPDX-License-Identifier: Apache-2.0
// Figures of a service in Prometheus' text format. Fixed memory, nothing allocates; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"
#include "src/http/http_server.h"

namespace bascule {

// A histogram of seconds or rows, with fixed bounds.
class Histogram {
 public:
  static constexpr std::size_t kBounds = 14;

  // first: the lowest bound; each further one is `factor` times as high.
  Histogram(double first, double factor) noexcept;
  void add(double value) noexcept;

  std::array<double, kBounds> bounds = {};
  std::array<std::uint64_t, kBounds + 1> counts = {};  // the last: above all bounds
  double sum = 0.0;
};

enum class RefusedFor : std::uint8_t { kQueue, kWait, kMemory, kProtocol };
inline constexpr std::size_t kRefusedFor = 4;

struct ServiceFigures {
  std::size_t waiting_inputs = 0;
  std::int64_t connections = 0;
  std::size_t planned_bytes = 0;
  std::uint64_t foreign_allocations = 0;
};

class ServiceMetrics {
 public:
  static constexpr std::size_t kMostTextBytes = 32768;
  static constexpr std::size_t kMostEndpoints = 24;

  void answered(std::size_t endpoint, int status, double seconds) noexcept;
  void refused(RefusedFor reason) noexcept { ++refused_[static_cast<std::size_t>(reason)]; }
  void batch(double queue_seconds, double seconds, std::int64_t rows) noexcept;
  std::uint64_t requests() const noexcept { return requests_; }

  // Returns the length.
  std::size_t write(const ServiceFigures& figures, const std::vector<HttpEndpoint>& endpoints,
                    Span<char> room) const noexcept;

 private:
  static constexpr int kStatuses[] = {200, 400, 401, 404, 405, 408, 411, 413, 415, 422, 424, 429, 431, 499, 503};

  std::array<std::array<std::uint64_t, std::size(kStatuses)>, kMostEndpoints> answers_ = {};
  std::array<std::uint64_t, kRefusedFor> refused_ = {};
  std::uint64_t requests_ = 0;
  Histogram duration_{1e-4, 3.0}, queued_{1e-4, 3.0}, inference_{1e-4, 3.0}, rows_{1.0, 2.0};
};

}  // namespace bascule
