// SPDX-License-Identifier: Apache-2.0
#include "src/serve/recorded_service.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/readable.h"
#include "src/checkpoint/hf_folder.h"
#include "src/http/listening_socket.h"
#include "src/runtime/threads.h"
#include "src/serve/access_log.h"
#include "src/serve/answer_text.h"
#include "src/serve/batch_answerer.h"
#include "src/settings/command_line_keys.h"

namespace bascule {
namespace {

constexpr const char* kRunRecord[] = {"bascule.json"};
constexpr std::int64_t kMostTextBytes = 262'144;
constexpr std::int64_t kMostKeyBytes = 4096;
constexpr std::int64_t kTypicalTokens = 64, kTypicalGuesses = 5, kTypicalWords = 16;
constexpr std::size_t kDrawnPictures = 16;
constexpr std::size_t kWorkerBytes = std::size_t{1} << 19;  // outside its arena: stacks, batches' lists

std::string key_of_file(const Settings& settings) {
  const PathSetting& path = settings.serve.api_key_file;
  if (!path.is_given()) return "";
  const std::string where = where_written(settings, "serve.api_key_file");
  std::ifstream file(path.resolved);
  std::string key;
  if (!file || !std::getline(file, key))
    throw Error(ErrorKind::kSettings, where, "serve.api_key_file: " + path.shown() + " cannot be read, or is empty",
                "write the key on its first line");
  while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
  const bool is_visible = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (key.empty() || !is_visible || key.size() > kMostKeyBytes)
    throw Error(ErrorKind::kSettings, where, "serve.api_key_file: the first line of " + path.shown() + " is no key",
                "write visible ASCII characters without spaces");
  return key;
}

void add_endpoints(RecordedService* service) {
  const auto add = [&](HttpMethod method, const char* path, ServedEndpoint endpoint, bool needs_key = true) {
    service->http.endpoints.push_back({method, path, needs_key, static_cast<int>(endpoint)});
  };
  add(HttpMethod::kGet, "/", ServedEndpoint::kHealth, false);
  add(HttpMethod::kGet, "/health", ServedEndpoint::kHealth, false);
  add(HttpMethod::kGet, "/ready", ServedEndpoint::kReady, false);
  add(HttpMethod::kGet, "/metrics", ServedEndpoint::kMetrics, false);
  add(HttpMethod::kGet, "/info", ServedEndpoint::kInfo);
  add(HttpMethod::kGet, "/v1/models", ServedEndpoint::kModels);
  if (service->settings.serve.ui) add(HttpMethod::kGet, "/ui", ServedEndpoint::kUi, false);
  if (service->model->reads_texts() && service->model->drawer() == nullptr)
    add(HttpMethod::kPost, "/tokenize", ServedEndpoint::kTokenize);
  add(HttpMethod::kPost, "/", ServedEndpoint::kNative);
  add(HttpMethod::kPost, "/v1", ServedEndpoint::kNative);
  switch (service->model->task()) {
    case ServedTask::kVectors:
      add(HttpMethod::kPost, "/embed", ServedEndpoint::kNative);
      add(HttpMethod::kPost, "/embeddings", ServedEndpoint::kOpenAi);
      add(HttpMethod::kPost, "/v1/embeddings", ServedEndpoint::kOpenAi);
      break;
    case ServedTask::kWords: add(HttpMethod::kPost, "/fill-mask", ServedEndpoint::kNative); break;
    case ServedTask::kDraws: add(HttpMethod::kPost, "/v1/images/generations", ServedEndpoint::kOpenAi); break;
    case ServedTask::kWrites:
      add(HttpMethod::kPost, "/generate", ServedEndpoint::kPredict);
      add(HttpMethod::kPost, "/v1/completions", ServedEndpoint::kOpenAi);
      break;
    case ServedTask::kClasses:
    case ServedTask::kTags:
    case ServedTask::kPictureClasses:
    case ServedTask::kValues: add(HttpMethod::kPost, "/predict", ServedEndpoint::kPredict); break;
  }
}

// Room for the answers to all inputs that may be admitted, as they usually are, and for some bodies of the largest
// size.
std::int64_t pool_bytes(const RecordedService& service) {
  const ServeSettings& serve = service.settings.serve;
  const std::int64_t bodies =
      (service.model->reads_pictures() ? 16 : 4) * serve.payload_limit + (std::int64_t{1} << 20);
  ServedInput typical;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(service.model->longest()), 0);
  typical.ids = ids.data();
  typical.tokens = std::min(service.model->longest(), kTypicalTokens);
  typical.selected = 1;
  typical.top = kTypicalGuesses;
  AnswerOptions options;
  options.form = form_of(service.model->task(), true);
  typical.word_count = kTypicalWords;
  typical.most_written = std::min(service.model->written(), kTypicalTokens);
  if (const ServedDrawer* const drawer = service.model->drawer()) {
    // Bytes of a file and, as base64, of its document. Few pictures wait for their clients at a time.
    return static_cast<std::int64_t>(3 * drawer->most_file_bytes() * kDrawnPictures) + bodies;
  }
  const std::size_t each = AnswerWriter(*service.model, service.name, 0).most_bytes(options, &typical);
  return serve.max_concurrent_requests * static_cast<std::int64_t>(each) + bodies;
}

std::int64_t milliseconds(double seconds) { return static_cast<std::int64_t>(1e3 * seconds); }

void plan_connections(RecordedService* service) {
  const ServeSettings& serve = service->settings.serve;
  HttpSettings& http = service->http;
  http.listen = serve.listen;
  http.max_connections = serve.max_connections;
  http.payload_limit = serve.payload_limit;
  http.request_timeout_ms = milliseconds(serve.request_timeout_seconds);
  http.idle_timeout_ms = milliseconds(serve.idle_timeout_seconds);
  http.drain_timeout_ms = milliseconds(serve.drain_timeout_seconds);
  http.api_key = key_of_file(service->settings);
  http.allow_remote_without_key = serve.allow_remote_without_key;
  http.cors_allow_origin = serve.cors_allow_origin;
  http.pool_bytes = pool_bytes(*service);
  add_endpoints(service);
}

int threads_of_service(const Settings& settings) {
  return settings.machine.threads > 0 ? static_cast<int>(settings.machine.threads)
                                      : threads_within(read_process_limits(), usable_cores(), 1);
}

// The threads of each worker. Those of one worker may run anywhere, beside the service's own.
std::vector<CoreGroups> workers_of_service(const Settings& settings) {
  constexpr int kLeastOfSeveral = 16;
  const int threads = threads_of_service(settings), workers = static_cast<int>(settings.serve.workers);
  if (workers == 1 || (workers == 0 && threads < kLeastOfSeveral)) return {groups_anywhere(threads)};
  if (workers > 0 && threads % workers != 0)
    throw Error(ErrorKind::kSettings, where_written(settings, "serve.workers"),
                "serve.workers = " + std::to_string(workers) + " does not divide the " + count_of(threads, "thread") +
                    " that compute",
                "write a divisor of " + std::to_string(threads) + ", or change machine.threads");
  std::vector<CoreGroups> of_workers =
      groups_of_workers(groups_of_threads(threads, threads == usable_cores()), workers);
  return of_workers.size() == 1 ? std::vector<CoreGroups>{groups_anywhere(threads)} : of_workers;
}

// A batch that could never hold the longest input would let it wait forever.
void check_batch(const RecordedService& service) {
  const std::int64_t tokens = service.settings.serve.max_batch_tokens, longest = service.model->most_rows();
  if (tokens >= longest) return;
  throw Error(ErrorKind::kSettings, where_written(service.settings, "serve.max_batch_tokens"),
              "serve.max_batch_tokens = " + std::to_string(tokens) + " is less than the longest input, " +
                  std::to_string(longest) + (service.model->reads_pictures() ? " rows" : " tokens"),
              "write " + std::to_string(longest) + " or more");
}

}  // namespace

std::unique_ptr<RecordedService> record_service(const Settings& settings) {
  auto service = std::make_unique<RecordedService>();
  service->settings = settings;
  const ModelSettings& model = settings.model;
  const std::string& folder = model.model_name_or_path.resolved;
  service->model = std::make_unique<ServedModel>(settings);
  service->name = settings.serve.served_model_name;
  if (service->name.empty()) service->name = std::filesystem::path(absolute_path(folder)).filename().string();
  check_batch(*service);
  service->threads = threads_of_service(settings);
  service->workers = workers_of_service(settings);
  const ServedWriter* const writer = service->model->writer();
  const std::int64_t least_rows = service->model->reads_texts() ? 1 : service->model->picture_rows();
  const std::int64_t texts = std::min({settings.serve.max_batch_requests, settings.serve.max_batch_tokens / least_rows,
                                       writer == nullptr ? settings.serve.max_batch_requests : writer->slots()});
  service->room = {service->model->drawer() == nullptr ? texts : 1, settings.serve.max_batch_tokens,
                   service->model->task() == ServedTask::kWords  ? std::max(kMostMasks, 2 * texts)
                   : service->model->task() == ServedTask::kTags ? settings.serve.max_batch_tokens
                                                                 : 0};
  service->text_bytes = static_cast<std::size_t>(std::min(settings.serve.payload_limit, kMostTextBytes));
  service->model->record(&service->session, service->room, model.precision);
  plan_connections(service.get());
  const std::size_t workers = service->workers.size();
  int most_threads = 0;  // of a worker
  for (const CoreGroups& cores : service->workers) most_threads = std::max(most_threads, threads_of(cores));
  service->session.allow_packing();
  std::vector<PlannedRange> ranges = service->session.plan(most_threads, static_cast<int>(workers));
  ranges.push_back({kRequestMemory, ServiceMemory(*service, nullptr).bytes(), workers > 1});
  if (const std::size_t bytes = BatchAnswerer::bytes(*service->model); bytes > 0)
    ranges.push_back({kBatchMemory, bytes});
  service->plan = make_memory_plan(std::move(ranges), kWorkerBytes, 0, workers);
  service->plan.program_bytes = kProgramBytes + kProcessBytes - kWorkerBytes;
  const ServeSettings& serve = settings.serve;
  service->plan.server_bytes =
      HttpServer::memory_bytes(service->http) +
      (serve.access_log.is_given()
           ? AccessLog::bytes(serve.access_log_requests, static_cast<std::size_t>(serve.payload_limit))
           : 0);
  service->plan.workspace_lower_bound_bytes = service->session.workspace_lower_bound_bytes();
  service->plan.largest = service->session.largest(8);
  return service;
}

void check_service_address(const Settings& settings) {
  (void)workers_of_service(settings);
  try_listening(settings.serve.listen, !key_of_file(settings).empty() || settings.serve.allow_remote_without_key);
}

std::vector<InputFolder> service_inputs(const RecordedService& service) {
  const ModelSettings& settings = service.settings.model;
  const ServedModel& model = *service.model;
  const std::string &folder = settings.model_name_or_path.written, &resolved = settings.model_name_or_path.resolved;
  const std::string weights = folder + model.weights_folder().substr(resolved.size());
  InputList inputs;
  inputs.add(weights, "config.json");
  for (std::string& file : hf_weight_files(model.weights_folder())) inputs.add(weights, std::move(file));
  for (const std::string& file : model.sentence().files) inputs.add_path(folder + "/" + file);
  inputs.add_found(folder, resolved, kRunRecord);
  inputs.add_found(folder, resolved, kPreprocessorFiles);
  const PathSetting& tokenizer = settings.tokenizer_name;
  inputs.add_found(tokenizer.is_given() ? tokenizer.written : weights,
                   tokenizer.is_given() ? tokenizer.resolved : model.weights_folder(), kTokenizerFiles);
  if (service.settings.serve.api_key_file.is_given()) inputs.add_path(service.settings.serve.api_key_file.written);
  return inputs.sorted();
}

void check_service_fits(const RecordedService& service, const ProcessLimits& limits, const std::string& own_limit) {
  const double gib = service.settings.machine.memory_limit_gib;
  const std::size_t limit = gib > 0.0 ? static_cast<std::size_t>(gib * 1073741824.0) : limits.memory_bytes;
  const std::size_t needed = service.plan.peak_bytes();
  if (needed <= limit) return;
  throw Error(
      ErrorKind::kMemory, where_written(service.settings, "machine.memory_limit_gib"),
      "needs " + std::string(readable_bytes(needed).c_str()) + ", and " +
          (gib > 0.0 ? own_limit : limits.memory_owner) + " has " + readable_bytes(limit).c_str(),
      "lower serve.max_batch_tokens, serve.max_concurrent_requests or serve.payload_limit" +
          (service.workers.size() > 1 ? ", or set serve.workers below " + std::to_string(service.workers.size()) +
                                            ": each worker has memory of its own"
                                      : ""));
}

}  // namespace bascule
