// SPDX-License-Identifier: Apache-2.0
#include "src/serve/request_text.h"

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <system_error>

namespace bascule {

Refusal refusal(int status, const char* type, const char* format, ...) noexcept {
  Refusal made{status, type, {}};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(made.message, sizeof made.message, format, arguments);
  va_end(arguments);
  return made;
}

Refusal invalid(const char* format, ...) noexcept {
  Refusal made{422, kValidationError, {}};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(made.message, sizeof made.message, format, arguments);
  va_end(arguments);
  return made;
}

namespace {

Refusal wrong_type(const char* member, const char* wanted) noexcept {
  return invalid("`%s` must be %s", member, wanted);
}

bool is_null(const JsonView& value) noexcept { return !value.is_there() || value.is(JsonKind::kNull); }

// The members of an object in turn, until one is refused.
class MemberReader {
 public:
  explicit MemberReader(const JsonView& object) noexcept : object_(object) {}

  void boolean(const char* name, std::optional<bool>* value) noexcept {
    const JsonView member = take(name);
    if (is_null(member)) return;
    *value = member.is(JsonKind::kTrue);
    if (!**value && !member.is(JsonKind::kFalse)) refuse(wrong_type(name, "true or false"));
  }
  void count(const char* name, std::int64_t most, std::optional<std::int64_t>* value, std::int64_t least = 1) noexcept {
    const JsonView member = take(name);
    if (is_null(member)) return;
    *value = member.integer();
    if (!*value || **value < least || **value > most)
      refuse(invalid("`%s` must be an integer from %jd to %jd", name, least, most));
  }
  void number(const char* name, std::optional<double>* value) noexcept {
    const JsonView member = take(name);
    if (is_null(member)) return;
    *value = member.number();
    if (!*value) refuse(wrong_type(name, "a number"));
  }
  // One of two words, which may be missing: whether it is the second.
  bool word(const char* name, const char* first, const char* second) noexcept {
    const JsonView member = take(name);
    if (is_null(member) || member.equals(first)) return false;
    if (!member.equals(second)) refuse(invalid("`%s` must be `%s` or `%s`", name, first, second));
    return true;
  }
  // Only false is possible, or null, an empty array, or this number.
  void never(const char* name, double number = 0.0) noexcept {
    const JsonView member = take(name);
    const bool is_empty = member.is(JsonKind::kArray) && member.count() == 0;
    const bool is_number = member.is(JsonKind::kNumber) && member.number() == number;
    if (!is_null(member) && !member.is(JsonKind::kFalse) && !is_empty && !is_number)
      refuse(invalid("`%s` is not supported: texts are not sampled", name));
  }
  // Only this word is possible.
  void only(const char* name, const char* word) noexcept {
    const JsonView member = take(name);
    if (!is_null(member) && !member.equals(word)) refuse(invalid("`%s` must be `%s`", name, word));
  }
  JsonView string(const char* name) noexcept {
    const JsonView member = take(name);
    if (is_null(member)) return {};
    if (!member.is(JsonKind::kString)) refuse(wrong_type(name, "a string"));
    return member;
  }
  // The member, which counts as read; one that changes nothing is only taken.
  JsonView take(const char* name) noexcept {
    const JsonView member = object_.member(name);
    read_ += member.is_there() ? 1 : 0;
    return member;
  }
  void refuse(const Refusal& refused) noexcept {
    if (!refused_.is_given()) refused_ = refused;
  }
  // After all: refuses an object with members that were not read.
  const Refusal& end() noexcept {
    if (!refused_.is_given() && object_.count() > read_)
      refused_ = invalid("the request has a member that is not known here");
    return refused_;
  }

 private:
  const JsonView object_;
  std::size_t read_ = 0;
  Refusal refused_;
};

constexpr std::int64_t kMostTop = 100, kMostCount = 1 << 20, kMostSide = 1 << 16;
constexpr std::int64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

void read_parameters(MemberReader* reader, RequestOptions* options) noexcept {
  reader->count("top_k", kMostTop, &options->top);
  reader->boolean("truncate", &options->truncate);
  reader->boolean("normalize", &options->normalize);
  reader->only("truncation_direction", "Right");
  if (const JsonView name = reader->string("prompt_name"); name.is_there()) options->prompt_name = name;
}

// Of texts that are written. They are the most probable ones, so that a seed changes nothing.
void read_writing(MemberReader* reader, const char* most, RequestOptions* options) noexcept {
  reader->count(most, kMostCount, &options->new_tokens);
  for (const char* name : {"do_sample", "decoder_input_details", "return_full_text", "watermark", "stop", "stream",
                           "temperature", "frequency_penalty", "presence_penalty"})
    reader->never(name);
  for (const char* name : {"top_p", "typical_p", "repetition_penalty", "best_of", "n"}) reader->never(name, 1.0);
  reader->count("seed", kMostSeed, &options->seed, 0);
}

// Of pictures that are drawn, which are all of one size and number of steps.
void read_drawing(MemberReader* reader, RequestOptions* options) noexcept {
  reader->count("height", kMostSide, &options->height);
  reader->count("width", kMostSide, &options->width);
  reader->count("num_inference_steps", kMostSide, &options->steps);
  reader->number("guidance_scale", &options->guidance);
  options->negative = reader->string("negative_prompt");
}

// OpenAI's size: "512x512".
Refusal read_size(const JsonView& size, RequestOptions* options) noexcept {
  if (is_null(size)) return {};
  const std::string_view text = size.raw_string();
  std::int64_t width = 0, height = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, width);
  const bool has_sign = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
  const auto second = has_sign ? std::from_chars(first.ptr + 1, end, height) : first;
  if (!has_sign || second.ec != std::errc() || second.ptr != end) return wrong_type("size", "as \"512x512\"");
  options->width = width;
  options->height = height;
  return {};
}

// `inputs`, or OpenAI's `input`.
Refusal check_inputs(const char* name, RequestOptions* options) noexcept {
  const JsonView& inputs = options->inputs;
  if (!inputs.is_there()) return invalid("`%s` is missing", name);
  const JsonView first = inputs.first();
  options->is_one = inputs.is(JsonKind::kString) || inputs.is(JsonKind::kObject) || first.is(JsonKind::kNumber);
  if (inputs.is(JsonKind::kArray) && !first.is_there()) return refusal(400, kEmptyInput, "`%s` is empty", name);
  return options->is_one || inputs.is(JsonKind::kArray) ? Refusal() : wrong_type(name, "a string or an array");
}

// One message of a user, whose parts are one input.
Refusal read_messages(const JsonView& messages, RequestOptions* options) noexcept {
  const JsonView message = messages.first();
  MemberReader reader(message);
  reader.only("role", "user");
  options->inputs = reader.take("content");
  options->is_content = options->is_one = true;
  if (messages.count() != 1 || !options->inputs.is(JsonKind::kArray))
    return invalid("`messages` must be one message, whose `content` is an array");
  return reader.end();
}

Refusal read_content(const JsonView& content, RequestInput* input) noexcept {
  for (JsonView part = content.first(); part.is_there(); part = part.next()) {
    MemberReader reader(part);
    const bool is_text = !reader.word("type", "text", "image_url");
    JsonView* const place = is_text ? &input->first : &input->picture;
    if (place->is_there()) return invalid("a message has one text and one picture, or one of them");
    if (is_text) *place = reader.string("text");
    if (!is_text) *place = reader.take("image_url").member("url");
    if (const Refusal refused = reader.end(); refused.is_given()) return refused;
    if (!place->is(JsonKind::kString)) return invalid("a part of a message has no `text` or `url`");
  }
  if (!input->first.is_there() && !input->picture.is_there()) return refusal(400, kEmptyInput, "the message is empty");
  return {};
}

}  // namespace

Refusal read_request(std::string_view body, RequestForm form, RequestOptions* options) noexcept {
  if (const JsonProblem problem = check_json(body); problem.what != nullptr)
    return refusal(400, kValidationError, "the body is not JSON: byte %zu: %s", problem.byte, problem.what);
  const JsonView document(body);
  if (!document.is(JsonKind::kObject)) return invalid("the body must be a JSON object");
  MemberReader reader(document);
  const bool is_native = form == RequestForm::kNative;
  const char* const name = is_native ? "inputs" : form == RequestForm::kOpenAi ? "input" : "prompt";
  options->inputs = reader.take(name);
  if (const JsonView messages = form == RequestForm::kOpenAi ? reader.take("messages") : JsonView();
      !is_null(messages)) {
    if (options->inputs.is_there()) reader.refuse(invalid("a request has `input` or `messages`, not both"));
    reader.refuse(read_messages(messages, options));
  }
  if (!options->is_content) reader.refuse(check_inputs(name, options));
  reader.string("model");
  if (is_native) {
    reader.boolean("add_special_tokens", &options->special_tokens);
    reader.take("options");
    const JsonView parameters = reader.take("parameters");
    if (!is_null(parameters) && !parameters.is(JsonKind::kObject)) reader.refuse(wrong_type("parameters", "an object"));
    if (parameters.is(JsonKind::kObject)) {
      MemberReader inner(parameters);
      read_parameters(&inner, options);
      inner.only("function_to_apply", "softmax");
      inner.only("aggregation_strategy", "first");
      inner.boolean("details", &options->details);
      read_writing(&inner, "max_new_tokens", options);
      read_drawing(&inner, options);
      reader.refuse(inner.end());
    }
    reader.never("stream");
  } else if (form == RequestForm::kDrawing) {
    reader.refuse(read_size(reader.string("size"), options));
    reader.only("response_format", "b64_json");
    reader.never("n", 1.0);
    reader.count("seed", kMostSeed, &options->seed, 0);
    reader.take("user");
  } else if (form == RequestForm::kCompletion) {
    read_writing(&reader, "max_tokens", options);
    for (const char* other : {"echo", "logprobs", "suffix", "logit_bias"}) reader.never(other);
    reader.take("user");
  } else {
    options->base64 = reader.word("encoding_format", "float", "base64");
    reader.count("dimensions", kMostCount, &options->dimensions);
    options->are_pictures = reader.word("modality", "text", "image");
    reader.take("user");
  }
  read_parameters(&reader, options);  // at the top, too, as clients send them
  return reader.end();
}

std::optional<std::size_t> read_base64(std::string_view text, char* room) noexcept {
  for (int padding = 0; padding < 2 && !text.empty() && text.back() == '='; ++padding) text.remove_suffix(1);
  const auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  std::size_t bytes = 0;
  std::uint32_t bits = 0;
  int held = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '/') ++i;
    const int six = value(text[i]);
    if (six < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(six);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    room[bytes++] = static_cast<char>(bits >> held & 0xff);
  }
  // One character alone holds no byte.
  return text.empty() || held == 6 ? std::nullopt : std::optional<std::size_t>(bytes);
}

Refusal read_picture(const JsonView& picture, std::string_view* base64) noexcept {
  std::string_view text = picture.raw_string();
  if (text.substr(0, 7) == "http://" || text.substr(0, 8) == "https://")
    return invalid("no address is fetched: send the bytes of the picture");
  if (text.substr(0, 5) == "data:") text.remove_prefix(std::min(text.find(','), text.size() - 1) + 1);
  *base64 = text;
  return {};
}

Refusal read_input(const JsonView& item, const RequestOptions& options, RequestInput* input) noexcept {
  *input = {};
  if (options.is_content) return read_content(item, input);
  if (item.is(JsonKind::kString)) {
    (options.are_pictures ? input->picture : input->first) = item;
    return {};
  }
  if (options.are_pictures) return invalid("a picture must be a string");
  if (item.is(JsonKind::kObject)) {
    MemberReader reader(item);
    input->first = reader.string("text");
    input->second = reader.string("text_pair");
    input->picture = reader.string("image");
    if (!input->first.is_there() && (!input->picture.is_there() || input->second.is_there()))
      reader.refuse(invalid("an input has no `text`"));
    return reader.end();
  }
  if (!item.is(JsonKind::kArray))
    return refusal(422, kValidationError,
                   "an input must be a string, an object of `text` and `text_pair` or an array of token ids");
  for (JsonView id = item.first(); id.is_there(); id = id.next()) {
    if (!id.integer()) return invalid("an array that is an input must hold token ids: integers");
  }
  if (!item.first().is_there()) return refusal(400, kEmptyInput, "an input is empty");
  input->ids = item;
  return {};
}

}  // namespace bascule
