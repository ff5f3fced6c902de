// SPDX-License-Identifier: Apache-2.0
#include "src/judge/entities.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "src/base/check.h"
#include "src/base/utf8.h"
#include "src/judge/examples.h"
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

// Judges a model that gives words tags: the figures of run_ner.py, which are seqeval's, over the tokens that have a
// label. Leaves predictions.jsonl, and in the report the figures of each type and the rows with the most mistakes.

namespace {

constexpr Metric kPrecision = {"precision", "precision of entities", 0, true, false, 2, 2};
constexpr Metric kRecall = {"recall", "recall of entities", 1, true, false, 3, 3};
constexpr Metric kEntityF1 = {"f1", "F1 of entities", 2, true, false, 1, 1};
constexpr Metric kTagAccuracy = {"accuracy", "accuracy of tags", 6, true};
constexpr Metric kTokenTagMetrics[] = {kEntityF1, kPrecision, kRecall, kTagAccuracy};

constexpr char kTokenTagNote[] =
    "`precision`, `recall`, `f1` and `accuracy` are those of `run_ner.py`: the first three of entities of all types "
    "together, as seqeval counts them in its default mode, the last of tags. Words that truncation cuts off are not "
    "judged.";

constexpr std::int64_t kWordBytes = 100;  // of a word with its tags and probability, in predictions.jsonl

// Counts of the entities that end in a row. An entity may begin in an earlier row (Entity::kEarlier), and rows are
// taken in any order: whether labels and predictions agree on that begin is known only once all rows are there.
struct EntityTally {
  struct Side {
    std::int32_t entities = 0;
    std::int32_t last_begin = Entity::kEarlier;  // in the row; kEarlier: none begins in it
  };
  Side labelled, predicted;
  std::int32_t both = 0;            // labelled and predicted, and begin in the row
  std::int32_t both_but_begin = 0;  // the same but for their begin, which is in an earlier row
  std::int32_t both_of_first = 0;   // labelled and predicted if no row comes before this one
};

// The entity as part of the first row: no earlier row has its begin, so it begins with the row.
Entity from_begin(Entity entity) noexcept {
  entity.begin = std::max(entity.begin, 0);
  return entity;
}

class TokenTags final : public Judge {
 public:
  explicit TokenTags(const JudgeShape& shape) : Judge(shape), tags_(shape.classes), classes_(output("logits").cols) {
    BASCULE_CHECK(static_cast<std::int64_t>(shape.classes.size()) == classes_);
    read(&logits_, "logits");
    read(&hits_, "hits");
    offsets_ = field_number("text_offsets");
    tagged_ = field_number("labelled_rows");
    labels_ = field_number("labels");
    words_ = field_number("label_words");
    plan(Part::kRows, &judged_, shape.max_rows);
    plan(Part::kPredictions, &counts_, shape.predicted_rows);
    plan(Part::kPredictions, &kept_, shape.predicted_rows * shape.counted_of_a_row);
  }

  const char* file() const override { return kPredictionsFile; }
  std::int64_t file_bytes(std::int64_t of_manifest) const override {
    return predictions_bytes(of_manifest, shape().predicted_rows, shape().counted_of_a_row * kWordBytes);
  }

  void write_files(const JudgedFiles& files, Report* report) const override {
    if (!keeps_predictions()) return;
    write_predictions(
        files, rows(), nullptr,
        [&](JsonStream& out, std::int64_t, std::int64_t row) { add_tagged_row(out, tagged_row(files, row)); },
        {nullptr, nullptr});
    if (files.manifest.is_unlabelled()) return;
    std::vector<TaggedRow> tagged;
    for (const std::int32_t row : rows()) tagged.push_back(tagged_row(files, row));
    add_tagged_examples(report, tagged, tags_);
  }

 protected:
  void take_rows(const Batch& batch, const Manifest&, Sums* sums) noexcept override {
    const std::int32_t *const offsets = batch.field<std::int32_t>(offsets_), *const tagged =
                                                                                 batch.field<std::int32_t>(tagged_);
    const std::int64_t all = static_cast<std::int64_t>(sums->counted);
    sums->right = static_cast<double>(std::count(hits_, hits_ + all, 1));
    std::int64_t begin = 0;
    for (std::int64_t s = 0; s < batch.counts.samples(); ++s) {
      std::int64_t end = begin;
      while (end < all && tagged[end] < offsets[s + 1]) ++end;
      take_row(batch, s, begin, end);
      begin = end;
    }
  }

  void move_row(std::int64_t to, std::int64_t from) noexcept override { judged_[to] = judged_[from]; }

  void judge_rows(Threads&, const Sums* sums, EvaluationRecord* record) noexcept override {
    if (sums->counted == 0.0) return;
    struct Begin {
      std::int64_t row = 0;
      std::int32_t place = 0;
      bool operator==(const Begin& other) const noexcept { return row == other.row && place == other.place; }
    };
    Begin labelled, predicted;  // of the last entity so far
    LabelCounts counts;
    for (std::int64_t row = 0; row < record->samples; ++row) {
      const EntityTally& one = judged_[row];
      counts.labelled += one.labelled.entities;
      counts.predicted += one.predicted.entities;
      counts.both += row == 0 ? one.both_of_first : one.both + (labelled == predicted ? one.both_but_begin : 0);
      if (one.labelled.last_begin != Entity::kEarlier) labelled = {row, one.labelled.last_begin};
      if (one.predicted.last_begin != Entity::kEarlier) predicted = {row, one.predicted.last_begin};
    }
    (*record)[kPrecision] = counts.precision();
    (*record)[kRecall] = counts.recall();
    (*record)[kEntityF1] = counts.f1();
    (*record)[kTagAccuracy] = sums->share_right();
  }

 private:
  // The labelled tokens [begin, end) of the batch are those of sample s.
  void take_row(const Batch& batch, std::int64_t s, std::int64_t begin, std::int64_t end) noexcept {
    const std::int32_t *const labels = batch.field<std::int32_t>(labels_), *const words =
                                                                               batch.field<std::int32_t>(words_);
    const std::int64_t row = batch.rows[s];
    EntityTally& judged = judged_[row] = EntityTally();
    EntityFinder labelled(tags_), predicted(tags_);
    const auto end_entities = [&](bool ends_labelled, const Entity& of_labels, bool ends_predicted,
                                  const Entity& of_predictions) {
      if (ends_labelled) ++judged.labelled.entities;
      if (ends_predicted) ++judged.predicted.entities;
      if (!ends_labelled || !ends_predicted) return;
      if (of_labels == of_predictions) ++(of_labels.begin == Entity::kEarlier ? judged.both_but_begin : judged.both);
      if (from_begin(of_labels) == from_begin(of_predictions)) ++judged.both_of_first;
    };
    Entity of_labels, of_predictions;
    for (std::int64_t token = begin; token < end; ++token) {
      ClassPrediction best;
      predict_classes(logits_ + token * classes_, classes_, &best, 1);
      const bool ends_labelled = labelled.take(labels[token], &of_labels);
      end_entities(ends_labelled, of_labels, predicted.take(best.id, &of_predictions), of_predictions);
      if (keeps_predictions())
        kept_[row * shape().counted_of_a_row + token - begin] = {words[token], labels[token], best.id,
                                                                 best.probability};
    }
    const bool ends_labelled = labelled.finish(&of_labels);
    end_entities(ends_labelled, of_labels, predicted.finish(&of_predictions), of_predictions);
    judged.labelled.last_begin = labelled.last_begin();
    judged.predicted.last_begin = predicted.last_begin();
    if (keeps_predictions()) counts_[row] = static_cast<std::int32_t>(end - begin);
  }

  TaggedRow tagged_row(const JudgedFiles& files, std::int64_t row) const {
    return {row, files, {kept_ + row * shape().counted_of_a_row, static_cast<std::size_t>(counts_[row])}};
  }

  const EntityTags tags_;
  const std::int64_t classes_;
  const float* logits_ = nullptr;       // (labelled tokens, classes)
  const std::int32_t* hits_ = nullptr;  // (labelled tokens), 1 where the largest logit is the label's
  int offsets_ = -1, tagged_ = -1, labels_ = -1, words_ = -1;  // fields
  EntityTally* judged_ = nullptr;                              // by row
  std::int32_t* counts_ = nullptr;                             // by row: its labelled tokens
  TokenTag* kept_ = nullptr;                                   // by row, counted_of_a_row each
};

}  // namespace

extern const JudgeKind kTokenTags;
const JudgeKind kTokenTags = judge_kind<TokenTags>("token_tags", kTokenTagMetrics, true, kTokenTagNote);

}  // namespace bascule
