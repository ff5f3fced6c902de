// SPDX-License-Identifier: Apache-2.0
#include "src/serve/service.h"

#include <algorithm>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr int kPollMs = 100;

double milliseconds(std::int64_t from_ns, std::int64_t to_ns) noexcept {
  return 1e-6 * static_cast<double>(std::max<std::int64_t>(0, to_ns - from_ns));
}

const char* pooling_word(Pooling pooling) {
  return pooling == Pooling::kMean ? "mean" : pooling == Pooling::kCls ? "cls" : "max";
}

Json task_json(const ServedModel& model) {
  Json classes = Json::object();
  for (std::size_t i = 0; i < model.names().size(); ++i) classes[std::to_string(i)] = model.names()[i];
  switch (model.task()) {
    case ServedTask::kVectors:
      if (model.reads_pictures()) return {{"embedding", {{"dimensions", model.numbers()}}}};
      return {{"embedding", {{"pooling", pooling_word(model.sentence().pooling)}, {"dimensions", model.numbers()}}}};
    case ServedTask::kWords: return {{"fill_mask", Json::object()}};
    case ServedTask::kDraws:
      return {{"text_to_image",
               {{"height", model.drawer()->options().height},
                {"width", model.drawer()->options().width},
                {"num_inference_steps", model.drawer()->steps()},
                {"guidance_scale", model.drawer()->options().guidance}}}};
    case ServedTask::kWrites: return {{"text_generation", {{"max_new_tokens", model.written()}}}};
    case ServedTask::kTags: return {{"tagger", {{"id2label", classes}}}};
    default: return {{"classifier", {{"id2label", classes}}}};
  }
}

Json info_json(const RecordedService& service, const std::string& digest, const TextRoom& room) {
  const ServeSettings& serve = service.settings.serve;
  return {{"model_id", service.name},
          {"model_sha", digest},
          {"model_dtype", service.settings.model.precision == Precision::kBf16 ? "bfloat16" : "float32"},
          {"served_model_name", service.name},
          {"model_type", task_json(*service.model)},
          {"max_concurrent_requests", serve.max_concurrent_requests},
          {"max_input_length", service.model->longest()},
          {"max_batch_tokens", room.tokens},
          {"max_batch_requests", room.texts},
          {"max_client_batch_size", serve.max_client_batch_size},
          {"auto_truncate", serve.auto_truncate},
          {"tokenization_workers", 1},
          {"version", BASCULE_VERSION},
          {"sha", Json()},
          {"docker_label", Json()}};
}

}  // namespace

Service::Service(RecordedService& service, Isa isa)
    : service_(service),
      serve_(service.settings.serve),
      memory_(service, nullptr),
      writer_(*service.model, service.name, service.text_bytes),
      jobs_(static_cast<std::size_t>(serve_.max_connections)) {
  workers_ = std::make_unique<BatchWorkers>(service, isa, [this] { server_->wake(); });
  workers_->fill_memory([this](StartWork* work, Threads& threads) { load(work, threads); });
  memory_ = ServiceMemory(service, workers_->arena().at(service.plan[kRequestMemory]));
  const std::size_t inputs = memory_.input.size();
  done_.resize(inputs);
  for (std::size_t i = inputs; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  default_prompt_ = service.model->default_prompt();
  workers_->measure(memory_.input, serve_.latency_bound_ms);
  longest_wait_ns_ = serve_.latency_bound_ms > 0.0 ? 1e6 * serve_.latency_bound_ms : 1e9 * serve_.queue_timeout_seconds;
  info_ = json_text(info_json(service, digest_, workers_->room()));
  models_ = json_text(
      {{"object", "list"},
       {"data",
        Json(Json::Array{{{"id", service.name}, {"object", "model"}, {"created", 0}, {"owned_by", "bascule"}}})}});
  if (serve_.ui) page_ = served_page(*service.model, service.name);
  if (serve_.access_log.is_given())
    log_ = AccessLog(serve_.access_log.resolved, serve_.access_log_requests,
                     static_cast<std::size_t>(serve_.payload_limit), digest_);
  HttpSettings http = service.http;
  http.headers = "X-Bascule-Model: " + digest_ + "\r\n";
  server_ = std::make_unique<HttpServer>(std::move(http), *this);
}

// In a worker's thread.
void Service::load(StartWork* work, Threads& threads) {
  const ServedModel& model = *service_.model;
  if (model.drawer() == nullptr) {
    load_weights(&service_.session, model.model(), model.weights_folder(), work, threads);
  } else {
    std::vector<TensorSource> sources;  // of a pipeline; they outlive the work
    const ParameterMemory parameters = service_.session.parameter_memory();
    for (const std::string& note : load_pipeline(work, model.drawer()->pipeline(), parameters, 0, false, &sources))
      std::fprintf(stderr, "bascule: %s\n", note.c_str());
    work->run(threads);
  }
  make_digest();
  service_.session.pack(threads);
}

// The digest of everything that decides the bits of an answer. Before weights are packed, in the form of a CPU.
void Service::make_digest() {
  const ParameterMemory memory = service_.session.parameter_memory();
  Sha256 sum;
  const auto add = [&](const auto* values, std::int64_t count) {
    if (count > 0) sum.add(values, static_cast<std::size_t>(count) * sizeof *values);
  };
  add(memory.trained, memory.layout->trained_elements);
  add(memory.fixed, memory.layout->fixed_elements);
  add(memory.rounded, memory.layout->rounded_elements);
  const std::uint64_t tokenizer = service_.model->reads_texts() ? service_.model->tokenizer().digest() : 0;
  add(&tokenizer, 1);
  const std::string facts = service_.model->facts() + settings_digest(service_.settings);
  add(facts.data(), static_cast<std::int64_t>(facts.size()));
  digest_ = Sha256Text(&sum).text();
}

void Service::serve(const volatile int* stop, const NotifySocket& notify) noexcept {
  const std::int64_t watchdog_ms = notify.watchdog_ms();
  std::int64_t told_ms = 0;
  notify.send("READY=1\nSTATUS=serving\n");
  while (!server_->is_draining() || !server_->is_drained()) {
    server_->poll(kPollMs);
    finish_done();
    if (*stop != 0 && !server_->is_draining()) {
      notify.send("STOPPING=1\nSTATUS=answering what was admitted\n");
      server_->drain();
    }
    // Nothing is told where a worker has stood in one batch for as long as systemd waits.
    const std::int64_t now_ms = monotonic_ms();
    if (watchdog_ms > 0 && now_ms - told_ms >= watchdog_ms / 3 && workers_->running_ms() < watchdog_ms) {
      notify.send("WATCHDOG=1\n");
      told_ms = now_ms;
    }
  }
}

void Service::finish_done() noexcept {
  for (std::size_t count = 0; (count = workers_->take_done(Span<std::uint32_t>(done_))) > 0;) {
    for (std::size_t i = 0; i < count; ++i) {
      ServedInput& input = memory_.input[done_[i]];
      Job& job = jobs_[input.request];
      if (input.is_first_of_batch)
        metrics_.batch(1e-3 * milliseconds(input.queued_ns, input.begun_ns),
                       1e-3 * milliseconds(input.begun_ns, input.ended_ns), input.batch_rows);
      if (--job.remaining == 0) finish(&job);
    }
  }
}

void Service::finish(Job* job) noexcept {
  bool is_late = false, is_finite = true;
  const ServedInput* refused = nullptr;
  for (const ServedInput* input = job->first; input != nullptr; input = input->next) {
    is_late = is_late || input->is_late;
    is_finite = is_finite && (input->is_dropped || input->is_finite);
    if (refused == nullptr && input->refused != MEDIA_ENGINE_OK) refused = input;
  }
  if (refused != nullptr && !refused->is_dropped && !is_late) {
    refuse(job->request, invalid("the picture cannot be read: %s",
                                 media_engine_picture_text(refused->refused, refused->refused_detail)));
  } else if (is_late) {
    metrics_.refused(RefusedFor::kWait);
    refuse(job->request, refusal(429, kOverloaded, "the request waited for longer than queue_timeout_seconds"));
  } else if (!is_finite) {
    refuse(job->request, refusal(424, kBackend, "the model's numbers for this request are not finite"));
  } else {
    const bool is_picture = job->options.form == AnswerForm::kFile;
    const std::size_t bytes = job->first->is_dropped ? 0
                              : is_picture           ? job->first->file_bytes
                                           : writer_.write(job->options, job->first, {job->room, job->room_bytes});
    const ServedInput& last = *job->first;
    char headers[192];
    const int written =
        std::snprintf(headers, sizeof headers, "x-queue-time: %.3f\r\nx-inference-time: %.3f\r\nx-total-time: %.3f\r\n",
                      milliseconds(last.queued_ns, last.begun_ns), milliseconds(last.begun_ns, last.ended_ns),
                      milliseconds(job->request.begun_ns, monotonic_ns()));
    answer(job->request, job->first->is_dropped ? 499 : 200, {is_picture ? job->first->file : job->room, bytes},
           {headers, static_cast<std::size_t>(std::max(0, written))}, job);
  }
  free_inputs(job->first);
  job->is_open = false;
}

void Service::free_inputs(ServedInput* first) noexcept {
  for (ServedInput* input = first; input != nullptr;) {
    ServedInput* const next = input->next;
    free_.push_back(static_cast<std::uint32_t>(input - memory_.input.data()));
    input->next = nullptr;
    input = next;
  }
}

void Service::gone(HttpTicket ticket) noexcept {
  Job& job = jobs_[ticket.slot];
  if (job.is_open) workers_->drop(job.first);
}

void Service::refused(int status, std::string_view path) noexcept {
  metrics_.refused(RefusedFor::kProtocol);
  const std::vector<HttpEndpoint>& all = service_.http.endpoints;
  const auto found = std::find_if(all.begin(), all.end(), [&](const HttpEndpoint& one) { return one.path == path; });
  if (found != all.end()) metrics_.answered(static_cast<std::size_t>(found - all.begin()), status, 0.0);
}

// job: of an answer that was computed; null: of one that was made at once.
void Service::answer(const HttpRequest& request, int status, std::string_view body, std::string_view headers,
                     const Job* job) noexcept {
  const std::int64_t now = monotonic_ns();
  metrics_.answered(request.endpoint, status, 1e-3 * milliseconds(request.begun_ns, now));
  AccessRecord record{request.path, request.content_type, request.body, body, status};
  record.unix_seconds = unix_seconds();
  record.total_ms = milliseconds(request.begun_ns, now);
  if (job != nullptr) {
    record.inputs = static_cast<std::int64_t>(job->inputs);
    record.batch_inputs = job->first->batch_inputs;
    record.queue_ms = milliseconds(job->first->queued_ns, job->first->begun_ns);
    record.inference_ms = milliseconds(job->first->begun_ns, job->first->ended_ns);
  }
  if (request.method == HttpMethod::kPost) log_.add(record);
  HttpAnswer answer;
  answer.status = status == 499 ? 503 : status;  // nobody reads it
  answer.headers = headers;
  answer.body = body;
  answer.lasting = body.data() == info_.data() || body.data() == models_.data() || body.data() == page_.html.data();
  if (job != nullptr && job->options.form == AnswerForm::kFile) answer.content_type = "image/png";
  if (service_.endpoint(request.endpoint) == ServedEndpoint::kMetrics && status == 200)
    answer.content_type = "text/plain; version=0.0.4";
  if (service_.endpoint(request.endpoint) == ServedEndpoint::kUi) answer.content_type = "text/html; charset=utf-8";
  server_->answer(request.ticket, answer);
}

void Service::refuse(const HttpRequest& request, const Refusal& refused) noexcept {
  char body[1024], headers[64];
  const std::size_t bytes =
      write_http_error(body, sizeof body, request.path, refused.status, refused.type, refused.message);
  int written = 0;
  if (refused.status == 429) {
    const double seconds = 1e-9 * workers_->predicted_wait_ns(nullptr);
    written = std::snprintf(headers, sizeof headers, "Retry-After: %d\r\n", 1 + static_cast<int>(seconds));
  }
  answer(request, refused.status, {body, bytes}, {headers, static_cast<std::size_t>(written)}, nullptr);
}

}  // namespace bascule
