// SPDX-License-Identifier: Apache-2.0
// Bodies of requests to a service: JSON in both forms, texts, token ids, base64, data URIs. Views stay within the
// body, and what check_json() lets pass is what the strict reader of documents reads.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/serve/request_text.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {
namespace {

bool is_within(std::string_view part, std::string_view whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void read_item(const JsonView& item, std::string_view body) {
  RequestInput input;
  if (read_input(item, &input).is_given()) return;
  for (const JsonView& text : {input.first, input.second}) {
    const std::string_view raw = text.raw_string();
    fuzz::require(is_within(raw, body));
    std::vector<char> room(raw.size());
    const std::string_view plain = text.string({room.data(), room.size()});
    fuzz::require(plain.size() <= raw.size());
    if (text.is_there()) fuzz::require(text.equals(plain));
    read_base64(raw, room.data());
  }
  for (JsonView id = input.ids.first(); id.is_there(); id = id.next()) fuzz::require(id.integer().has_value());
}

// A body that the one reader takes and the other refuses; limits of nesting and members are the scanner's alone.
bool is_read(const std::string& body) {
  try {
    parse_json(body, "body");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string body(fuzz::as_text(data + 1, size - 1));
  if (data[0] % 3 == 2) {
    std::vector<char> room(body.size());
    const std::optional<std::size_t> bytes = read_base64(body, room.data());
    fuzz::require(!bytes || *bytes <= body.size() / 4 * 3 + 2);
    return 0;
  }
  RequestOptions options;
  const Refusal refused = read_request(body, data[0] % 3 == 0 ? RequestForm::kNative : RequestForm::kOpenAi, &options);
  if (check_json(body).what == nullptr) fuzz::require(is_read(body));
  if (refused.is_given()) return 0;
  fuzz::require(options.inputs.is_there());
  if (options.is_one) {
    read_item(options.inputs, body);
    return 0;
  }
  std::size_t items = 0;
  for (JsonView item = options.inputs.first(); item.is_there(); item = item.next(), ++items) read_item(item, body);
  fuzz::require(items == options.inputs.count() && items > 0);
  return 0;
}

}  // namespace bascule
