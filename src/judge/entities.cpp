// SPDX-License-Identifier: Apache-2.0
#include "src/judge/entities.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/utf8.h"
#include "src/judge/statistics.h"

namespace bascule {
namespace {

std::string type_of(const std::string& name) {
  const std::string rest = name.substr(std::min(name.size(), std::max<std::size_t>(1, utf8_bytes_at(name, 0))));
  const std::size_t hyphen = rest.find('-');
  const std::string type = hyphen == std::string::npos ? rest : rest.substr(hyphen + 1);
  return type.empty() ? "_" : type;
}

// The letters of tags that are in no entity.
bool is_outside(char letter) noexcept { return letter == 'O' || letter == '.'; }

bool ends_between(const TagParts& before, const TagParts& tag) noexcept {
  if (before.letter == 'E' || before.letter == 'S') return true;
  const bool goes_on = before.letter == 'B' || before.letter == 'I';
  if (goes_on && (tag.letter == 'B' || tag.letter == 'S' || tag.letter == 'O')) return true;
  return !is_outside(before.letter) && before.type != tag.type;
}

bool begins_between(const TagParts& before, const TagParts& tag) noexcept {
  if (tag.letter == 'B' || tag.letter == 'S') return true;
  const bool begins_next = before.letter == 'E' || before.letter == 'S' || before.letter == 'O';
  if (begins_next && (tag.letter == 'E' || tag.letter == 'I')) return true;
  return !is_outside(tag.letter) && before.type != tag.type;
}

}  // namespace

EntityTags::EntityTags(const std::vector<std::string>& names) {
  types_ = {"_"};
  for (const std::string& name : names) types_.push_back(type_of(name));
  std::sort(types_.begin(), types_.end());
  types_.erase(std::unique(types_.begin(), types_.end()), types_.end());
  const auto number_of = [&](const std::string& type) {
    return static_cast<std::int32_t>(std::lower_bound(types_.begin(), types_.end(), type) - types_.begin());
  };
  for (const std::string& name : names) parts_.push_back({name.empty() ? 'O' : name[0], number_of(type_of(name))});
  outside_ = {'O', number_of("_")};
}

bool EntityFinder::take_parts(const TagParts& parts, Entity* ended) noexcept {
  const bool ends = ends_between(previous_, parts);
  if (ends) *ended = {previous_.type, begin_, taken_};
  if (begins_between(previous_, parts)) begin_ = taken_;
  previous_ = parts;
  ++taken_;
  return ends;
}

namespace {

constexpr std::size_t kShownRows = 12;

// By word: its first token, or null.
std::vector<const TokenTag*> first_tokens(const TaggedRow& row, std::size_t words) {
  std::vector<const TokenTag*> first(words, nullptr);
  for (const TokenTag& token : row.tokens) {
    const TokenTag*& of_word = first[static_cast<std::size_t>(token.word)];
    if (of_word == nullptr) of_word = &token;
  }
  return first;
}

std::vector<std::string> words_of(const TaggedRow& row) {
  std::vector<std::string> words;
  for (std::string_view left = row.files.manifest.row(row.row).text; !left.empty();)
    words.emplace_back(take_word(&left));
  return words;
}

struct RowEntities {
  std::vector<Entity> labelled, predicted;

  std::int64_t both() const {
    return std::count_if(labelled.begin(), labelled.end(), [this](const Entity& one) { return predicts(one); });
  }
  bool predicts(const Entity& one) const { return is_in(predicted, one); }
  static bool is_in(const std::vector<Entity>& all, const Entity& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  }
  std::int64_t mistakes() const { return static_cast<std::int64_t>(labelled.size() + predicted.size()) - 2 * both(); }
};

std::vector<Entity> entities_of(Span<const TokenTag> tokens, std::int32_t TokenTag::*tag, const EntityTags& tags) {
  EntityFinder finder(tags);
  std::vector<Entity> entities;
  Entity ended;
  for (const TokenTag& token : tokens) {
    if (finder.take(token.*tag, &ended)) entities.push_back(ended);
  }
  if (finder.finish(&ended)) entities.push_back(ended);
  return entities;
}

void add_figures(Report* report, const std::vector<RowEntities>& rows, const EntityTags& tags) {
  std::vector<LabelCounts> counts(tags.types().size());
  for (const RowEntities& row : rows) {
    for (const Entity& one : row.labelled) {
      ++counts[static_cast<std::size_t>(one.type)].labelled;
      if (row.predicts(one)) ++counts[static_cast<std::size_t>(one.type)].both;
    }
    for (const Entity& one : row.predicted) ++counts[static_cast<std::size_t>(one.type)].predicted;
  }
  for (std::size_t type = 0; type < counts.size(); ++type) {
    const LabelCounts& one = counts[type];
    if (one.labelled + one.predicted == 0) continue;
    report->entity_figures.push_back(
        {tags.types()[type], one.precision(), one.recall(), one.f1(), one.labelled, one.predicted});
  }
}

std::vector<MarkedEntity> marked(const TaggedRow& row, const std::vector<Entity>& entities,
                                 const std::vector<Entity>& others, const EntityTags& tags) {
  std::vector<MarkedEntity> all;
  for (const Entity& one : entities) {
    const std::size_t first = static_cast<std::size_t>(std::max(one.begin, 0));
    const std::size_t last = static_cast<std::size_t>(one.end) - 1;
    all.push_back({tags.types()[static_cast<std::size_t>(one.type)], static_cast<std::size_t>(row.tokens[first].word),
                   static_cast<std::size_t>(row.tokens[last].word) + 1, RowEntities::is_in(others, one)});
  }
  return all;
}

}  // namespace

void add_tagged_row(JsonStream& out, const TaggedRow& row) {
  const std::vector<std::string> words = words_of(row);
  const std::vector<const TokenTag*> first = first_tokens(row, words.size());
  const auto name_of = [&](int tag) -> const std::string& { return row.files.classes[static_cast<std::size_t>(tag)]; };
  out.key("words").begin_array();
  for (const std::string& word : words) out.string(word);
  out.end_array();
  if (!row.files.manifest.is_unlabelled()) {
    out.key("tags").begin_array();
    for (std::size_t word = 0; word < words.size(); ++word) out.string(name_of(row.files.manifest.tag(row.row, word)));
    out.end_array();
  }
  out.key("predicted").begin_array();
  for (const TokenTag* const token : first) {
    if (token != nullptr)
      out.string(name_of(token->predicted));
    else
      out.null();
  }
  out.end_array();
  out.key("probability").begin_array();
  for (const TokenTag* const token : first) {
    if (token != nullptr)
      out.number(static_cast<double>(token->probability));
    else
      out.null();
  }
  out.end_array();
}

void add_tagged_examples(Report* report, const std::vector<TaggedRow>& rows, const EntityTags& tags) {
  std::vector<RowEntities> entities;
  std::vector<std::size_t> worst;
  for (const TaggedRow& row : rows) {
    entities.push_back(
        {entities_of(row.tokens, &TokenTag::label, tags), entities_of(row.tokens, &TokenTag::predicted, tags)});
    worst.push_back(worst.size());
  }
  add_figures(report, entities, tags);
  std::stable_sort(worst.begin(), worst.end(),
                   [&](std::size_t a, std::size_t b) { return entities[a].mistakes() > entities[b].mistakes(); });
  worst.resize(std::min(worst.size(), kShownRows));
  for (const std::size_t place : worst) {
    const RowEntities& of_row = entities[place];
    report->tagged_texts.push_back({words_of(rows[place]), marked(rows[place], of_row.labelled, of_row.predicted, tags),
                                    marked(rows[place], of_row.predicted, of_row.labelled, tags)});
  }
}

}  // namespace bascule
