// SPDX-License-Identifier: Apache-2.0
#include "src/serve/service.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace bascule {
namespace {

constexpr const char* kReasons[kRefusedFor] = {"queue", "wait", "memory", "protocol"};

class PrometheusText {
 public:
  explicit PrometheusText(Span<char> room) noexcept : room_(room) {}

  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) noexcept {
    std::va_list arguments;
    va_start(arguments, format);
    const int bytes = std::vsnprintf(room_.data() + used_, room_.size() - used_, format, arguments);
    va_end(arguments);
    if (bytes > 0) used_ = std::min(used_ + static_cast<std::size_t>(bytes), room_.size() - 1);
  }
  void kind(const char* name, const char* type) noexcept { line("# TYPE bascule_%s %s\n", name, type); }
  void histogram(const char* name, const Histogram& histogram) noexcept {
    kind(name, "histogram");
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::kBounds; ++i) {
      below += histogram.counts[i];
      line("bascule_%s_bucket{le=\"%.6g\"} %llu\n", name, histogram.bounds[i], static_cast<unsigned long long>(below));
    }
    below += histogram.counts[Histogram::kBounds];
    line("bascule_%s_bucket{le=\"+Inf\"} %llu\nbascule_%s_sum %.9g\nbascule_%s_count %llu\n", name,
         static_cast<unsigned long long>(below), name, histogram.sum, name, static_cast<unsigned long long>(below));
  }
  void gauge(const char* name, std::uint64_t value) noexcept {
    kind(name, "gauge");
    line("bascule_%s %llu\n", name, static_cast<unsigned long long>(value));
  }
  std::size_t bytes() const noexcept { return used_; }

 private:
  Span<char> room_;
  std::size_t used_ = 0;
};

}  // namespace

Histogram::Histogram(double first, double factor) noexcept {
  for (double& bound : bounds) {
    bound = first;
    first *= factor;
  }
}

void Histogram::add(double value) noexcept {
  const auto bound = std::find_if(bounds.begin(), bounds.end(), [&](double one) { return value <= one; });
  ++counts[static_cast<std::size_t>(bound - bounds.begin())];
  sum += value;
}

void ServiceMetrics::answered(std::size_t endpoint, int status, double seconds) noexcept {
  const int* const found = std::find(std::begin(kStatuses), std::end(kStatuses), status);
  if (found == std::end(kStatuses) || endpoint >= answers_.size()) return;
  ++answers_[endpoint][static_cast<std::size_t>(found - kStatuses)];
  ++requests_;
  duration_.add(seconds);
}

void ServiceMetrics::batch(double queue_seconds, double seconds, std::int64_t rows) noexcept {
  queued_.add(queue_seconds);
  inference_.add(seconds);
  rows_.add(static_cast<double>(rows));
}

std::size_t ServiceMetrics::write(const ServiceFigures& figures, const std::vector<HttpEndpoint>& endpoints,
                                  Span<char> room) const noexcept {
  PrometheusText text(room);
  text.kind("requests_total", "counter");
  for (std::size_t endpoint = 0; endpoint < std::min(endpoints.size(), answers_.size()); ++endpoint) {
    for (std::size_t status = 0; status < std::size(kStatuses); ++status) {
      if (answers_[endpoint][status] == 0) continue;
      text.line("bascule_requests_total{endpoint=\"%s\",code=\"%d\"} %llu\n", endpoints[endpoint].path.c_str(),
                kStatuses[status], static_cast<unsigned long long>(answers_[endpoint][status]));
    }
  }
  text.kind("refused_total", "counter");
  for (std::size_t reason = 0; reason < kRefusedFor; ++reason)
    text.line("bascule_refused_total{reason=\"%s\"} %llu\n", kReasons[reason],
              static_cast<unsigned long long>(refused_[reason]));
  text.histogram("request_duration_seconds", duration_);
  text.histogram("queue_duration_seconds", queued_);
  text.histogram("inference_duration_seconds", inference_);
  text.histogram("batch_rows", rows_);
  text.gauge("queue_inputs", figures.waiting_inputs);
  text.gauge("connections", static_cast<std::uint64_t>(figures.connections));
  text.gauge("planned_bytes", figures.planned_bytes);
  text.kind("allocations_after_seal_total", "counter");
  text.line(
      "bascule_allocations_after_seal_total{by=\"bascule\"} 0\n"
      "bascule_allocations_after_seal_total{by=\"libraries\"} %llu\n",
      static_cast<unsigned long long>(figures.foreign_allocations));
  text.kind("build_info", "gauge");
  text.line("bascule_build_info{version=\"%s\"} 1\n", BASCULE_VERSION);
  return text.bytes();
}

}  // namespace bascule
