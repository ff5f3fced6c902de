// SPDX-License-Identifier: Apache-2.0
// The JSON of a request: what is asked about, and how. Sealed: nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/base/span.h"
#include "src/json/json_scan.h"

namespace bascule {

// Why a request is refused; status 0: it is not. type: the word that clients read.
struct Refusal {
  int status = 0;
  const char* type = "";
  char message[256] = {};

  bool is_given() const noexcept { return status != 0; }
};
// printf's format; a std::int64_t is %jd.
[[gnu::format(printf, 3, 4)]] Refusal refusal(int status, const char* type, const char* format, ...) noexcept;
// With 422 and kValidationError.
[[gnu::format(printf, 1, 2)]] Refusal invalid(const char* format, ...) noexcept;
inline constexpr char kValidationError[] = "Validation", kEmptyInput[] = "Empty", kOverloaded[] = "Overloaded",
                      kUnhealthy[] = "Unhealthy", kTokenizerError[] = "Tokenizer", kBackend[] = "Backend";

// The forms of requests: of text-embeddings-inference, text-generation-inference and huggingface_hub, and of OpenAI for
// vectors, for texts that are written and for pictures that are drawn.
enum class RequestForm : std::uint8_t { kNative, kOpenAi, kCompletion, kDrawing };

struct RequestOptions {
  std::optional<bool> truncate, normalize, details, special_tokens;
  std::optional<std::int64_t> top, new_tokens, dimensions;
  std::optional<std::int64_t> height, width, steps, seed;  // of pictures that are drawn
  std::optional<double> guidance;
  JsonView negative, prompt_name;  // strings, or no value
  bool base64 = false;
  JsonView inputs;            // a string, or an array that is not empty
  bool are_pictures = false;  // they are pictures, as base64 or data URIs
  bool is_content = false;    // they are the parts of a message, which make one input
  bool is_one = false;        // `inputs` as a whole is one input
};

// Reads a body into `options`, which refers to it. Members that no form knows are refused, so that nothing that is
// asked for is left out unsaid.
Refusal read_request(std::string_view body, RequestForm form, RequestOptions* options) noexcept;

// Bytes written as base64, into `room`, which has as many bytes as the text. Nothing where it is none. A slash may have
// a backslash before it, as PHP's json_encode() writes one.
std::optional<std::size_t> read_base64(std::string_view text, char* room) noexcept;

// The base64 of a picture that is a string: itself, or what a data URI holds. Addresses are refused.
Refusal read_picture(const JsonView& picture, std::string_view* base64) noexcept;

// One input: a text, a pair of texts, the ids of tokens, a picture, or a picture with a text.
struct RequestInput {
  JsonView first, second;  // strings; second: no value where it is no pair
  JsonView ids;            // an array of integers; no value where it is a text
  JsonView picture;        // a string of base64, or a data URI
};
// item: `inputs` itself where it is one input, else one of its items.
Refusal read_input(const JsonView& item, const RequestOptions& options, RequestInput* input) noexcept;

}  // namespace bascule
