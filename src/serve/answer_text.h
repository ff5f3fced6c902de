// SPDX-License-Identifier: Apache-2.0
// Bodies of answers. They are a function of the request and the model alone: no time, number or place of a batch is in
// them. Numbers are the shortest texts that read back to the same bits. Sealed: nothing allocates.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/json/json_stream.h"
#include "src/serve/served_model.h"

namespace bascule {

enum class AnswerForm : std::uint8_t {
  kVectors,        // [[0.1, ...], ...]
  kOpenAiVectors,  // {"object": "list", "data": [...], ...}
  kWords,          // [{"score", "token", "token_str", "sequence"}], or lists of them
  kClasses,        // the same of {"label", "score"}
  kTags,           // [{"entity_group", "score", "word", "start", "end"}], or lists of them
  kTexts,          // {"generated_text", ...}, or a list of them
  kOpenAiTexts,    // {"object": "text_completion", "choices": [...], ...}
  kFile,           // the bytes of a PNG file
  kOpenAiPicture,  // {"created", "data": [{"b64_json"}]}
  kTokens          // [[{"id", "text", "special", "start", "stop"}]]
};

struct AnswerOptions {
  AnswerForm form = AnswerForm::kVectors;
  bool base64 = false;
  bool normalizes = false;  // vectors that the model leaves as they are get the length 1
  bool is_one = false;      // the request had one input, not a list
  bool is_nested = false;   // kClasses, kTexts: a list more whatever the request had
  bool details = false;     // kTexts: with the tokens
  char id[32] = {};         // kOpenAiTexts: of the answer: "cmpl-" and a part of the request's SHA-256
};

// As the family answers natively, or in OpenAI's form.
AnswerForm form_of(ServedTask task, bool is_openai) noexcept;

class AnswerWriter {
 public:
  // Before the seal. name: of the model, in answers. text_bytes: of a text, at most.
  AnswerWriter(const ServedModel& model, std::string name, std::size_t text_bytes);

  // The most bytes of the answer to these inputs, whose tokens are there.
  std::size_t most_bytes(const AnswerOptions& options, const ServedInput* first) const noexcept;
  // The answers are there. Returns the length.
  std::size_t write(const AnswerOptions& options, const ServedInput* first, Span<char> room) noexcept;

 private:
  void vector(const ServedInput& input, const AnswerOptions& options, JsonStream* out) noexcept;
  void openai_vectors(const ServedInput* first, const AnswerOptions& options, JsonStream* out) noexcept;
  void words(const ServedInput& input, JsonStream* out) noexcept;
  void classes(const ServedInput& input, JsonStream* out) noexcept;
  void tags(const ServedInput& input, JsonStream* out) noexcept;
  void texts(const ServedInput& input, const AnswerOptions& options, JsonStream* out) noexcept;
  void openai_texts(const ServedInput* first, const AnswerOptions& options, JsonStream* out) noexcept;
  std::string_view written(const ServedInput& input) noexcept;
  void tokens(const ServedInput& input, JsonStream* out) noexcept;
  std::string_view token(std::int64_t id) const noexcept;
  bool is_special(std::int64_t id) const noexcept;
  std::string_view sequence(const ServedInput& input, std::int64_t mask, std::int64_t guess) noexcept;

  const ServedModel& model_;
  const std::string name_;
  std::vector<char> text_;     // a sequence; kTags: a text without its escapes; one that was written
  std::vector<float> scaled_;  // a vector
};

}  // namespace bascule
