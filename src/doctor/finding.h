// SPDX-License-Identifier: Apache-2.0
// Findings, the diagnosis made of them, and its forms: JSON, text and a page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/answer/page.h"

namespace bascule {

// Words for findings.
std::string count_text(std::int64_t count);  // "1,583"
// "1 picture", "1,583 pictures".
std::string counted(std::int64_t count, const std::string& noun);
std::string share_text(std::int64_t part, std::int64_t all);  // "0.76 %", of nothing "0 %"
// "is" or "are".
inline const char* verb_of(std::int64_t count) { return count == 1 ? "is" : "are"; }
inline const char* has_of(std::int64_t count) { return count == 1 ? "has" : "have"; }

// Keeps the first of many, in an order that they do not come in, and no more than that: examples of a finding. Of equal
// ones those that came first.
template <typename T, typename Before>
void keep_first(std::vector<T>* list, std::size_t most, const Before& before) {
  std::stable_sort(list->begin(), list->end(), before);
  if (list->size() > most) list->erase(list->begin() + static_cast<std::ptrdiff_t>(most), list->end());
}

// The list holds at most twice as many until keep_first().
template <typename T, typename Before>
void add_one(std::vector<T>* list, T one, std::size_t most, const Before& before) {
  list->push_back(std::move(one));
  if (list->size() / 2 >= most) keep_first(list, most, before);
}

enum class Level {
  kFails,    // training would end with an error
  kWarning,  // it would run, and the result would be worse or mean less than it seems
  kNote      // worth knowing
};
// "fails", "warning", "note".
const char* level_name(Level level);

// The most examples of a finding, but for a list of all rows.
inline constexpr std::size_t kMostExamples = 6;

struct Example {
  std::string text;                   // for people, one line: where it is and what it says
  std::vector<std::string> pictures;  // as read_picture_file() (src/pictures) takes them
};

struct Finding {
  Level level = Level::kNote;
  std::string check;       // "damaged_pictures": stable, for programs
  std::string what;        // for people, without a full stop
  std::string what_to_do;  // may be empty
  std::int64_t count = 0;  // of what `what` speaks about
  std::vector<Example> examples = {};
};

// All that `bascule doctor` says: figures of the data, findings, and what training would take. The same for the same
// data on every machine, but for TimeFigures.

// The lengths in tokens of one kind of text of a split.
struct TextFigures {
  std::string kind;           // "captions", "texts", "sources", "targets", "sentences", "prompts"
  std::int64_t limit = 0;     // longer texts are cut there; 0: they are not cut
  std::string limit_setting;  // "data.max_seq_length"
  std::int64_t texts = 0;     // that were read
  std::int64_t tokens = 0;    // of all, special ones and those that are cut included
  std::int64_t longest = 0;   // likewise
  std::int64_t cut_texts = 0, cut_tokens = 0;
  std::int64_t empty_texts = 0;  // without a token beside special ones
  std::int64_t unknown_tokens = 0, texts_with_unknown = 0, texts_all_unknown = 0;
  std::int64_t read_tokens = 0;      // that the model reads: at most `limit` of each text
  std::vector<std::int64_t> counts;  // texts by length; the last also counts all that are longer

  // The least length that at least this share of the texts does not exceed. 0 without texts.
  std::int64_t quantile(double share) const;
};

struct ClassCount {
  std::string name;
  std::int64_t rows = 0;
};

struct ValueFigures {
  double least = 0.0, mean = 0.0, most = 0.0;
};

struct PictureFigures {
  std::int64_t pictures = 0;                         // of different names
  std::int64_t unusable = 0;                         // missing, damaged or refused
  std::int64_t shortest_side = 0, longest_side = 0;  // of those that can be used
};

struct SplitFigures {
  std::string name;  // "train"
  std::string file;  // as the settings have it
  std::int64_t rows = 0;
  std::vector<TextFigures> texts;
  std::vector<ClassCount> classes;  // by name; of a model that reads labels
  std::optional<ValueFigures> values;
  std::optional<PictureFigures> pictures;
};

// False negatives of contrastive training: equal_rows.h.
struct BatchFigures {
  std::int64_t batch = 0, rows = 0;
  double equal_pairs = 0.0;    // expected in a batch: pairs of rows with the same picture or the same caption
  double rows_in_pairs = 0.0;  // expected in a batch: rows that are in such a pair
  double loss_floor = 0.0;     // nats
};

// The memory and time that a run would take. Depends on the machine.
struct TimeFigures {
  std::int64_t planned_bytes = 0, memory_bytes = 0;  // of the plan, of the machine
  std::int64_t batch = 0, largest_batch = 0;         // of a rank; the largest that fits
  bool largest_is_all_rows = false;
  std::int64_t updates_of_epoch = 0;
  double epochs = 0.0;
  std::optional<double> epoch_seconds;               // none: no profile of the machine was given
  double step_seconds = 0.0, loading_seconds = 0.0;  // of an update: computing; the loader's work for it
};

struct Diagnosis {
  std::string settings_file;
  std::vector<SplitFigures> splits;
  std::optional<BatchFigures> batches;
  std::optional<TimeFigures> time;
  std::vector<Finding> findings;  // the gravest first, then in the order of the checks
  int exit_code = 0;
};

// The JSON document that `bascule doctor --json` prints, and the lines of `--list`. README.md of this folder lists the
// keys.
std::string diagnosis_json(const Diagnosis& diagnosis);

// A line for each example of each finding: all rows, where the diagnosis was made with room for them.
std::string diagnosis_list(const Diagnosis& diagnosis);
// Whether a file is such a list: nothing else is written over.
bool is_diagnosis_list(const std::string& file);

// A diagnosis as text, and what the page has too: lines of a split and of the training.
std::vector<NamedText> lines_of(const SplitFigures& split);
std::vector<NamedText> lines_of(const Diagnosis& diagnosis);
// How many texts of the split are how long, and which of them are cut.
Table lengths_of(const TextFigures& figures, const SplitFigures& split);
// "0 would stop training, 2 warnings, 5 notes"
std::string verdict_of(const Diagnosis& diagnosis);

std::string diagnosis_text(const Diagnosis& diagnosis);

// A diagnosis as a page: `bascule doctor --html`. One file that loads nothing; pictures of examples are in it, scaled
// down.

// Whether a file is such a page: nothing else is written over.
bool is_diagnosis_page(const std::string& file);

// Reads the pictures of examples; one that cannot be decoded has none.
std::string diagnosis_html(const Diagnosis& diagnosis);

}  // namespace bascule
