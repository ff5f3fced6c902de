// SPDX-License-Identifier: Apache-2.0
// Entities of tagged words: found, counted, and as examples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/json/json_stream.h"
#include "src/judge/judge.h"

namespace bascule {

// Entities in sequences of tags, such as "B-PER I-PER O", as seqeval finds them in its default mode: a leading I- opens
// one. Source: seqeval 1.2, get_entities(), which lays the sequences of a data set end to end, with an "O" behind each.
// Usable after the seal.

// "B-PER" has the letter B and the type "PER". Where there is no hyphen, the type is all but the first character.
struct TagParts {
  char letter = 'O';      // the first byte
  std::int32_t type = 0;  // its place in EntityTags::types()
};

// The tags of a model, by number. Before the seal.
class EntityTags {
 public:
  explicit EntityTags(const std::vector<std::string>& names);

  const TagParts& operator[](std::int32_t tag) const noexcept { return parts_[static_cast<std::size_t>(tag)]; }
  // In the order of their bytes, with "_" of tags without a type.
  const std::vector<std::string>& types() const noexcept { return types_; }
  TagParts outside() const noexcept { return outside_; }

 private:
  std::vector<TagParts> parts_;
  std::vector<std::string> types_;
  TagParts outside_;  // of "O"
};

// A sequence's entity. begin: of the sequence; before the sequence's first entity begins it is kEarlier, which stands
// for the begin of the last entity of the sequences before it. Only tags of one character can have such entities.
struct Entity {
  static constexpr std::int32_t kEarlier = -1;

  std::int32_t type = 0;
  std::int32_t begin = kEarlier, end = 0;  // [begin, end)

  bool operator==(const Entity& other) const noexcept {
    return type == other.type && begin == other.begin && end == other.end;
  }
};

// Takes a sequence tag by tag, then its end.
class EntityFinder {
 public:
  explicit EntityFinder(const EntityTags& tags) noexcept : tags_(tags), previous_(tags.outside()) {}

  // Whether an entity ends before the tag, or at the sequence's end; then it is *ended.
  bool take(std::int32_t tag, Entity* ended) noexcept { return take_parts(tags_[tag], ended); }
  bool finish(Entity* ended) noexcept { return take_parts(tags_.outside(), ended); }
  // Where the last one began.
  std::int32_t last_begin() const noexcept { return begin_; }

 private:
  bool take_parts(const TagParts& parts, Entity* ended) noexcept;

  const EntityTags& tags_;
  TagParts previous_;
  std::int32_t begin_ = Entity::kEarlier, taken_ = 0;
};

// Rows of words with predicted tags for people: lines of predictions.jsonl, and the figures of each type and the rows
// with the most mistakes for report.html. Finish phase.

// A token that has a label.
struct TokenTag {
  std::int32_t word = 0;  // its number in the row
  std::int32_t label = 0, predicted = 0;
  float probability = 0.0f;  // of the predicted one
};

struct TaggedRow {
  std::int64_t row = 0;
  const JudgedFiles& files;
  Span<const TokenTag> tokens;  // in order
};

// Adds the keys "words", "tags", "predicted" and "probability", lists of as many elements. The prediction of a word is
// that of its first token; null for a word that has none, or was cut off.
void add_tagged_row(JsonStream& out, const TaggedRow& row);

// rows: of the predicted split, in order.
void add_tagged_examples(Report* report, const std::vector<TaggedRow>& rows, const EntityTags& tags);

}  // namespace bascule
