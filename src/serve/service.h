// SPDX-License-Identifier: Apache-2.0
// A sealed service: reads requests, hands their inputs to the workers, writes answers. The constructor belongs before
// the seal and may throw Error; from start() on nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/base/systemd.h"
#include "src/http/http_server.h"
#include "src/runtime/start_work.h"
#include "src/runtime/threads.h"
#include "src/serve/access_log.h"
#include "src/serve/answer_text.h"
#include "src/serve/batch_workers.h"
#include "src/serve/recorded_service.h"
#include "src/serve/request_text.h"

namespace bascule {

// page.cpp: for people, one HTML file without anything from elsewhere. Before the seal.
struct ServedPage {
  std::string html;
  std::string headers;  // Content-Security-Policy: the page's own script and style, and requests to this service
};

ServedPage served_page(const ServedModel& model, const std::string& name);

// Figures of a service in Prometheus' text format. Fixed memory, nothing allocates; one thread at a time.

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

class Service final : public HttpHandler {
 public:
  // Maps the memory, loads the weights, measures a batch, answers a first text, and listens. service: outlives this.
  // Throws Error.
  Service(RecordedService& service, Isa isa);

  const std::string& address() const { return server_->address(); }
  const std::string& digest() const { return digest_; }  // of weights, tokenizer and settings
  double row_ns() const { return workers_->row_ns(); }
  const TextRoom& batch_room() const { return workers_->room(); }
  std::uint64_t answered() const { return metrics_.requests(); }
  std::uint64_t batches() const { return workers_->batches(); }
  std::uint64_t lost_lines() const { return log_.lost(); }

  // Serves that connection, too.
  void connect(Descriptor socket) noexcept { server_->connect(std::move(socket)); }

  // Sealed. Serves until *stop is not 0 and what was admitted has been answered.
  void serve(const volatile int* stop, const NotifySocket& notify) noexcept;

  void request(const HttpRequest& request) noexcept override;
  void gone(HttpTicket ticket) noexcept override;
  void refused(int status, std::string_view path) noexcept override;

 private:
  // A request that waits for answers to its inputs: of a ticket's slot.
  struct Job {
    HttpRequest request;
    bool is_open = false;
    ServedInput* first = nullptr;
    std::size_t inputs = 0, remaining = 0;
    ServedEndpoint endpoint = ServedEndpoint::kNative;
    AnswerOptions options;
    char* room = nullptr;
    std::size_t room_bytes = 0;
  };

  void load(StartWork* work, Threads& threads);
  void make_digest();
  void finish_done() noexcept;
  void finish(Job* job) noexcept;
  void free_inputs(ServedInput* first) noexcept;

  Refusal admit(const HttpRequest& request, Job* job) noexcept;
  Refusal encode_inputs(const RequestOptions& options, Job* job) noexcept;
  Refusal encode_input(const JsonView& item, const RequestOptions& options, ServedInput* input) noexcept;
  Refusal take_picture(const JsonView& item, ServedInput* input) noexcept;
  Refusal encode_text(const RequestInput& asked, const RequestOptions& options, ServedInput* input) noexcept;
  Refusal encode_drawing(const RequestInput& asked, const RequestOptions& options, ServedInput* input) noexcept;
  Refusal check_drawing_options(const RequestOptions& options) noexcept;
  bool cuts(const RequestOptions& options) const noexcept { return options.truncate.value_or(serve_.auto_truncate); }
  Refusal find_prompt(const RequestOptions& options, std::string_view* prompt) noexcept;
  Refusal encode_ids(const JsonView& ids, const RequestOptions& options, ServedInput* input) noexcept;
  Refusal check_options(const RequestOptions& options, Job* job) noexcept;
  Refusal reserve(Job* job) noexcept;
  Refusal check_wait(Job* job) noexcept;

  void answer_metrics(const HttpRequest& request) noexcept;
  void answer(const HttpRequest& request, int status, std::string_view body, std::string_view headers,
              const Job* job) noexcept;
  void refuse(const HttpRequest& request, const Refusal& refused) noexcept;

  RecordedService& service_;
  const ServeSettings& serve_;
  ServiceMemory memory_;
  AnswerWriter writer_;
  std::string digest_, default_prompt_;
  double longest_wait_ns_ = 0.0;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<BatchWorkers> workers_;  // which wake the server
  std::vector<Job> jobs_;                  // by slot
  std::vector<std::uint32_t> free_;        // inputs
  std::vector<std::uint32_t> done_;
  std::string info_, models_;
  ServedPage page_;
  ServiceMetrics metrics_;
  AccessLog log_;
};

}  // namespace bascule
