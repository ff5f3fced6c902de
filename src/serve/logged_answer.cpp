// SPDX-License-Identifier: Apache-2.0
#include "src/serve/access_log.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/runtime/choose_isa.h"
#include "src/serve/service.h"

namespace bascule {
namespace {

constexpr double kLongestWaitSeconds = 86400.0;

// All that comes back for `request`; short where the server ends first.
std::string ask(const Descriptor& socket, const std::string& request) {
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t part = send(socket.number(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (part <= 0) break;
    sent += static_cast<std::size_t>(part);
  }
  std::string answer;
  char part[65536];
  for (ssize_t bytes = 0; (bytes = recv(socket.number(), part, sizeof part, 0)) > 0;)
    answer.append(part, static_cast<std::size_t>(bytes));
  return answer;
}

std::string request_text(const LoggedAnswer& logged, const std::string& body) {
  std::string text = "POST " + logged.path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  if (!logged.content_type.empty()) text += "Content-Type: " + logged.content_type + "\r\n";
  return text + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string bytes_of_base64(const std::string& text, const std::string& where) {
  std::string bytes(text.size(), '\0');
  const std::optional<std::size_t> count = read_base64(text, bytes.data());
  if (!count && !text.empty()) throw Error(ErrorKind::kData, where, "\"body_base64\" is not base64");
  bytes.resize(count.value_or(0));
  return bytes;
}

LoggedAnswer logged_answer(const Json& json, const std::string& where) {
  LoggedAnswer logged;
  logged.path = get_string(json, "path", where);
  logged.content_type = get_string(json, "content_type", where, "");
  logged.status = get_int(json, "status", where);
  logged.model = get_string(json, "model", where);
  logged.request = get_string(json, "request", where);
  logged.answer = get_string(json, "answer", where);
  if (find_member(json, "body", where) != nullptr) logged.body = get_string(json, "body", where);
  if (find_member(json, "body_base64", where) != nullptr)
    logged.body = bytes_of_base64(get_string(json, "body_base64", where), where);
  for (const std::string* text : {&logged.path, &logged.content_type}) {
    if (text->find_first_of("\r\n") != std::string::npos)
      throw Error(ErrorKind::kData, where, "has a line break where a service writes none");
  }
  return logged;
}

}  // namespace

LoggedAnswer read_logged_answer(const std::string& log, std::int64_t line, std::vector<std::string>* broken) {
  std::ifstream file(log, std::ios::binary);
  if (!file) throw Error(ErrorKind::kData, log, "cannot be read", "name an access log of `bascule serve`");
  std::optional<LoggedAnswer> found;
  std::string text, before;
  std::int64_t number = 0;
  std::uint64_t next = 0;
  while (std::getline(file, text)) {
    const std::string where = log + ":" + std::to_string(++number), place = "line " + std::to_string(number);
    if (file.eof()) broken->push_back(place + " is cut off");
    const Json json = parse_json(text, log, number);
    const std::uint64_t sequence = get_unsigned(json, "sequence", where);
    const std::string previous = get_string(json, "previous", where);
    // What stands before the first line of a file may lie in another one.
    const bool is_first = number == 1;
    if (is_first ? (sequence == 0) != previous.empty() : previous != before)
      broken->push_back(place + " is not the one that followed " +
                        (is_first ? std::string("nothing") : "line " + std::to_string(number - 1)) +
                        " when it was written");
    if (!is_first && sequence != next)
      broken->push_back(place + " has the sequence " + std::to_string(sequence) + " in place of " +
                        std::to_string(next));
    next = sequence + 1;
    before = Sha256Text(text).text();
    if (number == line) found = logged_answer(json, where);
  }
  if (!found)
    throw Error(ErrorKind::kData, log, "has " + std::to_string(number) + " lines, and no line " + std::to_string(line));
  return *found;
}

ComputedAnswer compute_answer(Settings settings, const LoggedAnswer& logged, const std::string& body) {
  ServeSettings& serve = settings.serve;
  serve.listen = "";
  serve.api_key_file = serve.access_log = {};
  serve.access_log_requests = false;
  serve.max_connections = serve.workers = 1;
  serve.payload_limit = std::max(serve.payload_limit, static_cast<std::int64_t>(body.size()));
  serve.latency_bound_ms = 0.0;
  serve.queue_timeout_seconds = serve.request_timeout_seconds = serve.idle_timeout_seconds = kLongestWaitSeconds;
  const std::unique_ptr<RecordedService> recorded = record_service(settings);
  check_service_fits(*recorded, read_process_limits());
  Service service(*recorded, choose_isa(settings.machine, settings.model.precision));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorKind::kMemory, "reproduce", std::string("sockets: ") + std::strerror(errno),
                advice_for_open(errno));
  service.connect(Descriptor(ends[0]));
  volatile int stop = 0;
  std::string answer;
  std::thread client([&, socket = Descriptor(ends[1])] {
    answer = ask(socket, request_text(logged, body));
    stop = 1;
  });
  service.serve(&stop, NotifySocket());
  client.join();
  const std::size_t head = answer.find("\r\n\r\n");
  if (head == std::string::npos) throw Error(ErrorKind::kInternal, "reproduce", "the service did not answer");
  return {std::strtoll(answer.substr(9, 3).c_str(), nullptr, 10), service.digest(), answer.substr(head + 4)};
}

}  // namespace bascule
