// SPDX-License-Identifier: Apache-2.0
// Bodies of requests to a service: JSON in all forms, texts, token ids, base64, data URIs. Views stay within the body,
// and check_json() lets pass what the strict reader of documents reads.
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/serve/request_text.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {
namespace {

constexpr int kForms = 4;                       // of requests; the value behind the last: base64 alone
constexpr std::uint8_t kComparesReaders = 192;  // from this first byte on: it takes longer than all else

bool is_within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_base64(std::string_view text) {
  std::vector<char> room(text.size());
  const std::optional<std::size_t> bytes = read_base64(text, room.data());
  fuzz::require(!bytes || *bytes <= text.size() / 4 * 3 + 2);
}

void check_string(const JsonView& text, std::string_view body) {
  const std::string_view raw = text.raw_string();
  fuzz::require(is_within(raw, body));
  std::vector<char> room(raw.size());
  const std::string_view plain = text.string({room.data(), room.size()});
  fuzz::require(plain.size() <= raw.size());
  if (text.is_there()) fuzz::require(text.equals(plain));
}

void read_item(const JsonView& item, const RequestOptions& options, std::string_view body) {
  RequestInput input;
  if (read_input(item, options, &input).is_given()) return;
  for (const JsonView& text : {input.first, input.second, input.picture}) check_string(text, body);
  for (JsonView id = input.ids.first(); id.is_there(); id = id.next()) fuzz::require(id.integer().has_value());
  std::string_view base64;
  if (input.picture.is_there() && !read_picture(input.picture, &base64).is_given()) {
    fuzz::require(is_within(base64, input.picture.raw_string()));
    check_base64(base64);
  }
}

// The scanner and the strict reader of documents agree, but for the scanner's limits, numbers that no double holds, and
// a byte order mark, which the scanner refuses.
void check_readers(std::string_view body) {
  const JsonProblem problem = check_json(body);
  bool is_read = true;
  try {
    parse_json(body, "body");
  } catch (const Error& error) {
    is_read = error.problem().find("a number is too large") != std::string::npos && problem.what == nullptr;
  }
  const std::string_view what = problem.what == nullptr ? "" : problem.what;
  const bool has_limit = what == "the document is nested too deeply" || what == "an object has too many members";
  fuzz::require(is_read == what.empty() || has_limit || body.substr(0, 3) == "\xEF\xBB\xBF");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // As large as the text, so that the sanitizer sees a read behind its end.
  std::vector<char> bytes(size - 1);
  std::memcpy(bytes.data(), data + 1, bytes.size());
  const std::string_view body(bytes.data(), bytes.size());
  const int form = data[0] % (kForms + 1);
  if (form == kForms) {
    check_base64(body);
    return 0;
  }
  RequestOptions options;
  const Refusal refused = read_request(body, static_cast<RequestForm>(form), &options);
  if (data[0] >= kComparesReaders) check_readers(body);
  if (refused.is_given()) return 0;
  for (const JsonView& text : {options.prompt_name, options.negative}) check_string(text, body);
  fuzz::require(options.inputs.is_there());
  if (options.is_one) {
    read_item(options.inputs, options, body);
    return 0;
  }
  std::size_t items = 0;
  for (JsonView item = options.inputs.first(); item.is_there(); item = item.next(), ++items)
    read_item(item, options, body);
  fuzz::require(items == options.inputs.count() && items > 0);
  return 0;
}

}  // namespace bascule
