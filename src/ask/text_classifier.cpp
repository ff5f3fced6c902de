// SPDX-License-Identifier: Apache-2.0
#include "src/ask/text_classifier.h"

#include <algorithm>
#include <string_view>

#include "src/ask/finished_model.h"
#include "src/json/json.h"
#include "src/machine/process_limits.h"
#include "src/runtime/choose_isa.h"
#include "src/session/packed_batch.h"

namespace bascule {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

std::int64_t characters(std::string_view text) { return std::count_if(text.begin(), text.end(), begins_character); }

// A word: the tokens that begin with one that does not continue another.
struct TaggedWord {
  std::size_t begin = 0, end = 0;  // bytes of the text
  std::int64_t tag = 0;
  double probability = 0.0;
};

// Whether the token continues the word of the token before it. Tokens that do not tell are in the same word where
// there is no space between them.
bool continues(const std::string& text, const PlacedToken& token, const TokenWords& words) {
  if (token.id == words.tokenizer.unknown_id()) return false;
  const std::string_view shown(text.data() + token.begin, token.end - token.begin);
  if (words.tokenizer.marks_continuation()) {
    const std::size_t id = static_cast<std::size_t>(token.id);
    return id < words.texts.size() && characters(words.texts[id]) != characters(shown);
  }
  if (token.begin == 0) return false;
  const bool is_space_before = text[token.begin - 1] == ' ';
  const bool is_space_there = token.begin < text.size() && text[token.begin] == ' ';
  return !is_space_before && !is_space_there;
}

// A tag without B- or I- goes on as I- does.
struct TagName {
  bool begins = false;
  std::string rest;
};
TagName parts_of(const std::string& name) {
  const bool has_prefix = name.rfind("B-", 0) == 0 || name.rfind("I-", 0) == 0;
  return {name.rfind("B-", 0) == 0, has_prefix ? name.substr(2) : name};
}

std::string type_of(const std::string& name) {
  const std::size_t hyphen = name.find('-');
  return hyphen == std::string::npos ? name : name.substr(hyphen + 1);
}

// [first, last] of the words.
TextEntity entity_of(const std::string& text, const std::vector<TaggedWord>& words, std::size_t first, std::size_t last,
                     const std::string& type) {
  TextEntity entity;
  entity.type = type;
  for (std::size_t i = first; i <= last; ++i) entity.score += words[i].probability;
  entity.score /= static_cast<double>(last - first + 1);
  const std::size_t begin = words[first].begin, end = std::max(begin, words[last].end);
  entity.text = text.substr(begin, end - begin);
  entity.start = characters(std::string_view(text).substr(0, begin));
  entity.end = characters(std::string_view(text).substr(0, words[last].end));
  return entity;
}

}  // namespace

std::vector<TextEntity> text_entities(const std::string& text, const std::vector<PlacedToken>& tokens,
                                      const float* logits, const std::vector<std::string>& names,
                                      const TokenWords& words) {
  std::vector<TaggedWord> tagged;
  const std::int64_t classes = static_cast<std::int64_t>(names.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (!tagged.empty() && continues(text, tokens[t], words)) {
      tagged.back().end = tokens[t].end;
      continue;
    }
    const TokenOrClass best = most_probable(logits + static_cast<std::int64_t>(t) * classes, classes, 1).front();
    tagged.push_back({tokens[t].begin, tokens[t].end, best.id, best.probability});
  }
  std::vector<TextEntity> entities;
  for (std::size_t first = 0, next = 0; first < tagged.size(); first = next) {
    const std::string& name = names[static_cast<std::size_t>(tagged[first].tag)];
    for (next = first + 1; next < tagged.size(); ++next) {
      const TagName tag = parts_of(names[static_cast<std::size_t>(tagged[next].tag)]);
      if (tag.begins || tag.rest != parts_of(name).rest) break;
    }
    if (type_of(name) != "O") entities.push_back(entity_of(text, tagged, first, next - 1, type_of(name)));
  }
  return entities;
}

Json entities_json(const std::vector<TextEntity>& entities) {
  Json all = Json::array();
  for (const TextEntity& one : entities) {
    all.push_back(
        {{"entity", one.type}, {"score", one.score}, {"text", one.text}, {"start", one.start}, {"end", one.end}});
  }
  return all;
}

TextClassifier::TextClassifier(const std::string& folder, const Model& model, std::int32_t second_type,
                               std::int64_t batch, std::int64_t longest)
    : folder_(folder),
      inputs_(model.inputs()),
      second_type_(second_type),
      fields_(model.fields({})),
      threads_(threads_within(read_process_limits(), usable_cores(), 1), false) {
  BatchCounts bounds;
  bounds[kSamples] = batch;
  for (const FieldSource source : {FieldSource::kTokenIds, FieldSource::kLabelledRows}) {
    const int field = field_from(fields_, source);
    if (field < 0) continue;
    const int stream = fields_[static_cast<std::size_t>(field)].rows.stream;
    bounds[stream] = batch * longest;
    bounds.longest[stream] = longest;
  }
  logits_ = reference_logits(model.record(session_.add_graph(bounds, fields_), Use::kReference, {}));
  seal_with_weights(&session_, model, folder, choose_isa("auto"), threads_);
}

const float* TextClassifier::run(const std::vector<EncodedText>& texts) {
  PaddedBatch padded;
  padded.samples = static_cast<std::int64_t>(texts.size());
  padded.labels.assign(texts.size(), 0);  // for the loss, which nobody reads
  padded.label_values.assign(texts.size(), 0.0f);
  PaddedText& text = padded.texts[0];
  std::int64_t tokens = 0;
  for (const EncodedText& one : texts) {
    const std::int64_t length = static_cast<std::int64_t>(one.ids.size());
    text.length = std::max(text.length, length);
    tokens += length;
  }
  for (const EncodedText& one : texts) {
    for (std::size_t t = 0; t < static_cast<std::size_t>(text.length); ++t) {
      const bool is_there = t < one.ids.size();
      text.input_ids.push_back(is_there ? one.ids[t] : 0);
      text.attention_mask.push_back(is_there ? 1 : 0);
      text.token_types.push_back(is_there && t >= one.second_begin ? second_type_ : 0);
      if (inputs_.reads_words) text.token_labels.push_back(is_there ? 0 : -100);
    }
  }
  const PackedBatch packed(padded, inputs_, false, "the text");
  Replay replay;
  replay.batch = packed.batch(fields_);
  session_.tape(0).replay(threads_, replay);
  const float* const logits = session_.tape(0).at(logits_);
  const std::int64_t rows = inputs_.reads_words ? tokens : padded.samples;
  refuse_not_finite_logits(logits, rows * inputs_.classes, folder_);
  return logits;
}

}  // namespace bascule
