// SPDX-License-Identifier: Apache-2.0
// The samples of a run with the rules on their rows (data_rows.cpp), and when it evaluates, saves and stops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "firmware_shims/media_engine.h"
#include "src/corpus/token_store.h"
#include "src/record/recorded_run.h"

namespace bascule {

// data.validation_share: which rows of the training file a split has. Before the seal.
class HeldOut {
 public:
  HeldOut(const Settings& settings, const IndexCache& cache) : settings_(settings), cache_(cache) {}

  // Whether the split is a part of the training file.
  bool divides(Split split) const { return settings_.data.validation_share > 0.0 && split != Split::kTest; }

  // The split's rows of the whole training file, or the first of them; most: 0 for all. The same rows each time it is
  // called. Throws Error{kSettings} where there are none.
  Manifest rows_of(const Manifest& whole, Split split, std::int64_t most);
  // For a text corpus: the tokens of the split's documents, or of its lines where these are samples. Arguments as of
  // open_tokens().
  OpenedTokens tokens_of(const DataFiles& files, const Tokenizer& tokenizer, Split split, bool keeps);

  // For people: how many rows were held out. Empty where none were asked for.
  const std::string& note() const { return note_; }

 private:
  void say(std::int64_t held_out, std::int64_t all, const char* unit, const std::string& name);

  const Settings& settings_;
  const IndexCache& cache_;
  std::vector<bool> held_out_;  // by row of the training file
  std::string note_;
};

// Samples that are a source and a target: rows where one of them is empty, and lengths. Before the seal.

// Finds the rows of a split with an empty source or target, and notes that they are skipped. Throws Error kData naming
// the first unless data.on_bad_sample = "skip", and where every row is one.
void find_empty_texts(RecordedRun* run, Manifest* manifest);

// Notes, a line for each split, how many texts are cut at their maximal length, and lengths that are not known yet. The
// loader is planned.
void note_lengths(RecordedRun* run);

// The same of texts that are embedded each by itself: a line for each split, by column.
void note_cut_texts(RecordedRun* run);

// Notes what is easily missed where such texts are trained: prompts that are not used, and negatives of few rows.
void note_training_texts(RecordedRun* run);

// Plans the training batches of the whole run so that none has a text twice, and notes what that makes of them. The
// training split is open. With a lender, whose batches stand for them, only their bytes.
void plan_distinct_batches(RecordedRun* run, const RunData* lender);

// Words with tags: the tags of tokens behind the first of a word, and what people are told of words. Before the seal.

// With data.label_all_tokens, the tag of a word's further tokens, by the word's: I-X for B-X where the model has it,
// else the same.
std::vector<std::int32_t> further_tags(const ModelInputs& model);

// Notes for each split how many words are cut off. The loader is planned.
void note_cut_words(RecordedRun* run);

// The labels of a run that may be names of classes, or values: those of its training data, and the classes' numbers.
// Before the seal.

struct DataClasses {
  std::vector<std::string> names;  // by number; of classes that are not the model's
  bool are_values = false;         // labels are values, and those of the model are not
  std::string note;                // for people; empty: the model's labels are the data's
};

// model: what its folder says; without names of classes, it says nothing about them. Names of the training data are
// numbered as the model does where it has the same ones, else in the order of their bytes. Labels that are numbers are
// the model's. Throws Error kData where all rows of the training data have one class, and for names in one split and
// numbers, or classes in one and values, in another.
DataClasses classes_of_data(const RunData& data, const ModelInputs& model);

// Whether all labels of the training data are strings that read as numbers, some with a decimal point or an exponent:
// values may be meant.
bool has_quoted_values(const RunData& data);

// Gives the rows of all splits the numbers of their classes' names. Throws Error kData naming the first row whose class
// is not among the model's, and where labels are values and the model has classes, or the reverse.
void number_classes(RunData* data, const ModelInputs& model);

// The samples of a run: opens the splits that it reads, takes their classes, and plans the loader. Before the seal;
// throws Error.

// Fills run->data and, where the training data decides on the classes, opens the model anew. The model is open.
// lender: the data of another run with the same rows and texts, which it lends; null: splits are opened here.
void plan_data(RecordedRun* run, const media_engine_driver* engine, RunData* lender);

// The training file with all its rows, opened anew. The data is planned; the file is no text corpus.
Manifest whole_training_file(const RecordedRun& run);

// Its parts, for those that look at data which a run may refuse. The splits that a run reads, in order; what the loader
// is told before it has a split; one split, opened, its classes not numbered yet.
std::vector<Split> splits_read(const TrainingSettings& training);
void set_up_loader(RecordedRun* run, const media_engine_driver* engine);
// held_out: the same for all splits of a run.
void open_split(RecordedRun* run, Split split, HeldOut* held_out, RunData* lender = nullptr);

// When a run evaluates, saves and stops, and which evaluation is the best, from the settings; and what a checkpoint's
// search for the best means for them. Before the seal.

// Fills pace->control and pace->best_figure, and for a run that resumes from a checkpoint resume->is_over and
// resume->searches_anew, with a note of each; a run in output_dir that was ended early ends there again. Throws
// Error{kSettings} for a figure that the head does not have.
void plan_control(const TrainingSettings& training, const std::string& output_dir, const SettingsOrigin& origin,
                  const RunData& data, Metrics metrics, std::size_t classes, Pace* pace, ResumeState* resume);

// The checkpoint of the best weights so far is needed at the end: where it is missing, resume->searches_anew.
void check_best_checkpoint(const RunSettings& run, const TrainingSettings& training, ResumeState* resume);

// Whether a search that begins anew saves the weights that it begins with: not where they are in the run's own folder
// and training goes on, so that no checkpoint is replaced before there is something new.
bool saves_first(const std::string& output_dir, const ResumeState& resume);

// Whether evaluations of the checkpoint and those of now are of the same rows, cut into the same batches.
bool has_same_validation(const ResumeState& resume);

}  // namespace bascule
