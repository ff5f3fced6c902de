// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "src/base/error.h"
#include "src/commands/commands.h"
#include "src/json/json.h"
#include "src/serve/logged_answer.h"

namespace bascule {
namespace {

std::string read_request_body(const std::string& file) {
  std::ifstream stream;
  if (file != "-") stream.open(file, std::ios::binary);
  std::istream& input = file == "-" ? std::cin : stream;
  if (!input) throw Error(ErrorKind::kData, file, "cannot be read", "name a file with the body of the request");
  return {std::istreambuf_iterator<char>(input), {}};
}

std::string body_of(const LoggedAnswer& logged, const std::string& file, const std::string& where) {
  if (!file.empty()) return read_request_body(file);
  if (logged.body) return *logged.body;
  throw Error(ErrorKind::kSettings, where, "does not have the request: the service did not keep requests",
              "name a file with its body: --request FILE");
}

std::int64_t line_number(const std::string& text) {
  std::int64_t line = 0;
  const char* const end = text.data() + text.size();
  const auto [after, failure] = std::from_chars(text.data(), end, line);
  if (failure == std::errc() && after == end) return line;
  throw Error(ErrorKind::kSettings, "--answer", "\"" + text + "\" is not the number of a line", "write LOG LINE");
}

}  // namespace

int reproduce_answer(const ReproduceArguments& arguments) {
  const auto& [log, number] = *arguments.answer;
  const std::int64_t line = line_number(number);
  std::vector<std::string> differences;
  const LoggedAnswer logged = read_logged_answer(log, line, &differences);
  for (std::string& text : differences) text.insert(0, "log: ");
  const std::string where = log + ":" + std::to_string(line);
  const std::string body = body_of(logged, arguments.request, where);
  const auto compare = [&](const char* what, const std::string& now, const std::string& then) {
    if (now != then) differences.push_back(std::string(what) + ": " + now + ", recorded " + then);
    return now == then;
  };
  Json document = {{"log", log}, {"line", line}, {"path", logged.path}, {"status", logged.status}};
  std::string said = where + ": refused with status " + std::to_string(logged.status) +
                     ", which depended on the load: the answer is not computed";
  if (!compare("request", sha256_text(body), logged.request)) {
    said = where + ": another request: its answer is not computed";
  } else if (logged.is_of_model()) {
    const ComputedAnswer answer = compute_answer(settings_to_serve({arguments.record, arguments.keys}), logged, body);
    compare("model", answer.model, logged.model);
    compare("status", std::to_string(answer.status), std::to_string(logged.status));
    const bool is_equal = compare("answer", sha256_text(answer.body), logged.answer);
    said = where + (is_equal
                        ? ": equal bytes: the answer of " + std::to_string(answer.body.size()) + " bytes is as recorded"
                        : ": the answer is not the recorded one");
    document["answer"] = sha256_text(answer.body);
  }
  const bool is_as_recorded = differences.empty();
  if (arguments.json) {
    Json list = Json::array();
    for (const std::string& text : differences) list.push_back({{"what", text}});
    document["differences"] = list;
    document["as_recorded"] = is_as_recorded;
    std::printf("%s\n", json_text(document, 2).c_str());
  } else {
    for (const std::string& text : differences) std::printf("differs: %s\n", text.c_str());
    std::puts(said.c_str());
  }
  return is_as_recorded ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

}  // namespace bascule
