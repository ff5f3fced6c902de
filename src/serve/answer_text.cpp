// SPDX-License-Identifier: Apache-2.0
#include "src/serve/answer_text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace bascule {
namespace {

constexpr std::size_t kNumberBytes = 18;   // "-1.17549435e-38, "
constexpr std::size_t kBesideBytes = 128;  // names and signs of an entry
constexpr std::size_t kDocumentBytes = 512;

// Escaped, a byte takes at most so many.
constexpr std::size_t kEscapedBytes = 6;

}  // namespace

AnswerForm form_of(ServedTask task, bool is_openai) noexcept {
  switch (task) {
    case ServedTask::kVectors: return is_openai ? AnswerForm::kOpenAiVectors : AnswerForm::kVectors;
    case ServedTask::kWords: return AnswerForm::kWords;
    case ServedTask::kTags: return AnswerForm::kTags;
    case ServedTask::kWrites: return is_openai ? AnswerForm::kOpenAiTexts : AnswerForm::kTexts;
    case ServedTask::kDraws: return is_openai ? AnswerForm::kOpenAiPicture : AnswerForm::kFile;
    default: return AnswerForm::kClasses;
  }
}

AnswerWriter::AnswerWriter(const ServedModel& model, std::string name, std::size_t text_bytes)
    : model_(model),
      name_(std::move(name)),
      text_(model.task() == ServedTask::kWords  ? static_cast<std::size_t>(model.longest()) * (model.longest_name() + 1)
            : model.task() == ServedTask::kTags ? text_bytes
            : model.writer() != nullptr
                ? static_cast<std::size_t>(model.written()) * model.writer()->decoder().most_bytes_of_token()
                : 0),
      scaled_(model.task() == ServedTask::kVectors ? static_cast<std::size_t>(model.numbers()) : 0) {}

std::string_view AnswerWriter::token(std::int64_t id) const noexcept {
  const std::size_t place = static_cast<std::size_t>(id);  // the model's table may have rows that no token uses
  return place < model_.tokens().size() ? std::string_view(model_.tokens()[place]) : std::string_view();
}

bool AnswerWriter::is_special(std::int64_t id) const noexcept {
  const Span<const std::int32_t> special = model_.tokenizer().special_ids();
  return std::binary_search(special.begin(), special.end(), static_cast<std::int32_t>(id));
}

std::size_t AnswerWriter::most_bytes(const AnswerOptions& options, const ServedInput* first) const noexcept {
  std::size_t bytes = kDocumentBytes + kEscapedBytes * name_.size();
  const std::size_t longest = kEscapedBytes * model_.longest_name() + kBesideBytes;
  for (const ServedInput* input = first; input != nullptr; input = input->next) {
    const std::size_t numbers = static_cast<std::size_t>(model_.numbers());
    const std::size_t tokens = static_cast<std::size_t>(input->tokens);
    bytes += kBesideBytes;
    switch (options.form) {
      case AnswerForm::kVectors:
      case AnswerForm::kOpenAiVectors: bytes += kNumberBytes * numbers; break;
      case AnswerForm::kClasses:
        bytes += longest * static_cast<std::size_t>(std::max<std::int64_t>(1, std::min(input->top, model_.guesses())));
        break;
      case AnswerForm::kTags:
        bytes +=
            longest * static_cast<std::size_t>(input->word_count) + kEscapedBytes * input->text.raw_string().size();
        break;
      case AnswerForm::kTexts:
      case AnswerForm::kOpenAiTexts: {
        // Of the native answer from "/" the text is there three times.
        const std::size_t each = 3 * kEscapedBytes * model_.writer()->decoder().most_bytes_of_token();
        bytes += 2 * kBesideBytes + static_cast<std::size_t>(input->most_written) *
                                        (each + (options.details ? longest + kNumberBytes : 0));
        break;
      }
      case AnswerForm::kFile: break;
      case AnswerForm::kOpenAiPicture:
        bytes += 4 * divide_up<std::size_t>(model_.drawer()->most_file_bytes(), 3);
        break;
      case AnswerForm::kTokens: bytes += longest * tokens; break;
      case AnswerForm::kWords: {
        std::size_t sequence = 0;
        for (std::size_t t = 0; t < tokens; ++t) sequence += kEscapedBytes * (token(input->ids[t]).size() + 1);
        bytes += static_cast<std::size_t>(input->selected * input->top) * (longest * 2 + sequence);
        break;
      }
    }
  }
  return bytes;
}

void AnswerWriter::vector(const ServedInput& input, const AnswerOptions& options, JsonStream* out) noexcept {
  const float* numbers = input.numbers;
  const std::size_t width = scaled_.size();
  if (options.normalizes) {
    double sum = 0.0;
    for (std::size_t i = 0; i < width; ++i) sum += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
    const double scale = sum > 0.0 ? 1.0 / std::sqrt(sum) : 0.0;
    for (std::size_t i = 0; i < width; ++i) scaled_[i] = static_cast<float>(static_cast<double>(numbers[i]) * scale);
    numbers = scaled_.data();
  }
  if (options.base64) {
    out->base64({static_cast<const std::byte*>(static_cast<const void*>(numbers)), width * sizeof(float)});
    return;
  }
  out->begin_array();
  for (std::size_t i = 0; i < width; ++i) out->float32(numbers[i]);
  out->end_array();
}

void AnswerWriter::openai_vectors(const ServedInput* first, const AnswerOptions& options, JsonStream* out) noexcept {
  std::int64_t index = 0, tokens = 0;
  out->begin_object().key("object").string("list").key("data").begin_array();
  for (const ServedInput* input = first; input != nullptr; input = input->next) {
    out->begin_object().key("object").string("embedding").key("index").integer(index++).key("embedding");
    vector(*input, options, out);
    out->end_object();
    tokens += input->tokens;
  }
  out->end_array().key("model").string(name_).key("usage").begin_object();
  out->key("prompt_tokens").integer(tokens).key("total_tokens").integer(tokens).end_object().end_object();
}

// The text with one mask filled in, as the files' tokens read: WordPiece with a space before each word and none before
// these signs; byte-level tokens hold their spaces. Special tokens are left out where there is one mask.
std::string_view AnswerWriter::sequence(const ServedInput& input, std::int64_t mask, std::int64_t guess) noexcept {
  const bool is_word_piece = model_.tokenizer().marks_continuation();
  std::size_t bytes = 0;
  std::int64_t masks = 0;
  for (std::int64_t t = 0; t < input.tokens; ++t) {
    std::int64_t id = input.ids[t];
    if (id == model_.tokenizer().mask_id() && masks++ == mask) id = guess;
    if (input.selected == 1 && is_special(id)) continue;
    std::string_view text = token(id);
    if (is_word_piece && bytes > 0) {
      constexpr std::string_view kWithoutSpace[] = {".", "?", "!", ","};
      if (text.substr(0, 2) == "##") {
        text.remove_prefix(2);
      } else if (std::find(std::begin(kWithoutSpace), std::end(kWithoutSpace), text) == std::end(kWithoutSpace)) {
        text_[bytes++] = ' ';
      }
    }
    std::memcpy(text_.data() + bytes, text.data(), text.size());
    bytes += text.size();
  }
  return {text_.data(), bytes};
}

void AnswerWriter::words(const ServedInput& input, JsonStream* out) noexcept {
  if (input.selected > 1) out->begin_array();
  for (std::int64_t mask = 0; mask < input.selected; ++mask) {
    out->begin_array();
    for (std::int64_t i = 0; i < input.guesses_each; ++i) {
      const TokenOrClass& guess = input.guesses[mask * input.guesses_each + i];
      out->begin_object().key("score").number(guess.probability).key("token").integer(guess.id);
      out->key("token_str").string(token(guess.id)).key("sequence").string(sequence(input, mask, guess.id));
      out->end_object();
    }
    out->end_array();
  }
  if (input.selected > 1) out->end_array();
}

void AnswerWriter::classes(const ServedInput& input, JsonStream* out) noexcept {
  const std::vector<std::string>& names = model_.names();
  out->begin_array();
  if (model_.task() == ServedTask::kValues) {
    out->begin_object().key("label").string(names.empty() ? "value" : names.front());
    out->key("score").float32(*input.numbers).end_object();
  }
  for (std::int64_t i = 0; i < input.guesses_each; ++i) {
    const TokenOrClass& guess = input.guesses[i];
    out->begin_object().key("label").string(names[static_cast<std::size_t>(guess.id)]);
    out->key("score").number(guess.probability).end_object();
  }
  out->end_array();
}

void AnswerWriter::tags(const ServedInput& input, JsonStream* out) noexcept {
  EntityReader reader(input.text.string(Span<char>(text_)), {input.words, static_cast<std::size_t>(input.word_count)},
                      model_.names());
  out->begin_array();
  for (TextEntity one; reader.next(&one);) {
    out->begin_object().key("entity_group").string(one.type).key("score").number(one.score);
    out->key("word").string(one.text).key("start").integer(one.start).key("end").integer(one.end).end_object();
  }
  out->end_array();
}

std::string_view AnswerWriter::written(const ServedInput& input) noexcept {
  const Span<const std::int32_t> ids{input.written, static_cast<std::size_t>(input.written_tokens)};
  return {text_.data(), model_.writer()->decoder().decode_into(ids, Span<char>(text_))};
}

void AnswerWriter::texts(const ServedInput& input, const AnswerOptions& options, JsonStream* out) noexcept {
  const std::string_view text = written(input);
  out->begin_object().key("generated_text").string(text);
  if (options.is_nested) out->key("summary_text").string(text).key("translation_text").string(text);
  if (options.details) {
    out->key("details").begin_object().key("finish_reason").string(input.is_cut ? "length" : "eos_token");
    out->key("generated_tokens").integer(input.written_tokens).key("seed").null();
    out->key("prefill").begin_array().end_array().key("tokens").begin_array();
    for (std::int64_t t = 0; t < input.written_tokens; ++t) {
      const std::int32_t id = input.written[t];
      out->begin_object().key("id").integer(id).key("text").string(token(id)).key("logprob");
      if (input.wants_logs) out->float32(input.logs[t]);
      if (!input.wants_logs) out->null();
      out->key("special").boolean(is_special(id)).end_object();
    }
    out->end_array().end_object();
  }
  out->end_object();
}

void AnswerWriter::openai_texts(const ServedInput* first, const AnswerOptions& options, JsonStream* out) noexcept {
  std::int64_t index = 0, read = 0, wrote = 0;
  out->begin_object().key("id").string(options.id).key("object").string("text_completion").key("created").integer(0);
  out->key("model").string(name_).key("choices").begin_array();
  for (const ServedInput* input = first; input != nullptr; input = input->next) {
    out->begin_object().key("text").string(written(*input)).key("index").integer(index++).key("logprobs").null();
    out->key("finish_reason").string(input->is_cut ? "length" : "stop").end_object();
    read += input->tokens;
    wrote += input->written_tokens;
  }
  out->end_array().key("usage").begin_object().key("prompt_tokens").integer(read);
  out->key("completion_tokens").integer(wrote).key("total_tokens").integer(read + wrote).end_object().end_object();
}

void AnswerWriter::tokens(const ServedInput& input, JsonStream* out) noexcept {
  out->begin_array();
  for (std::int64_t t = 0; t < input.tokens; ++t) {
    out->begin_object().key("id").integer(input.ids[t]).key("text").string(token(input.ids[t]));
    out->key("special").boolean(is_special(input.ids[t])).key("start").null().key("stop").null().end_object();
  }
  out->end_array();
}

std::size_t AnswerWriter::write(const AnswerOptions& options, const ServedInput* first, Span<char> room) noexcept {
  JsonStream out(room);
  if (options.form == AnswerForm::kOpenAiPicture) {
    const std::byte* const file = static_cast<const std::byte*>(static_cast<const void*>(first->file));
    out.begin_object().key("created").integer(0).key("data").begin_array().begin_object().key("b64_json");
    out.base64({file, first->file_bytes}).end_object().end_array().end_object();
    return out.overflowed() ? 0 : out.text().size();
  }
  if (options.form == AnswerForm::kOpenAiVectors || options.form == AnswerForm::kOpenAiTexts) {
    if (options.form == AnswerForm::kOpenAiVectors) openai_vectors(first, options, &out);
    if (options.form == AnswerForm::kOpenAiTexts) openai_texts(first, options, &out);
    return out.overflowed() ? 0 : out.text().size();
  }
  const bool is_flat =
      options.is_one &&
      (options.form == AnswerForm::kWords || options.form == AnswerForm::kTags ||
       ((options.form == AnswerForm::kClasses || options.form == AnswerForm::kTexts) && !options.is_nested));
  if (!is_flat) out.begin_array();
  for (const ServedInput* input = first; input != nullptr; input = input->next) {
    if (options.form == AnswerForm::kVectors) vector(*input, options, &out);
    if (options.form == AnswerForm::kWords) words(*input, &out);
    if (options.form == AnswerForm::kClasses) classes(*input, &out);
    if (options.form == AnswerForm::kTexts) texts(*input, options, &out);
    if (options.form == AnswerForm::kTags) tags(*input, &out);
    if (options.form == AnswerForm::kTokens) tokens(*input, &out);
  }
  if (!is_flat) out.end_array();
  return out.overflowed() ? 0 : out.text().size();
}

}  // namespace bascule
