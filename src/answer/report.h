// SPDX-License-Identifier: Apache-2.0
// The figures and facts of a finished run, and the texts and files that are made of them. Finish phase: allocates,
// throws Error{kDisk}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/embedding_map.h"
#include "src/answer/page.h"
#include "src/base/span.h"
#include "src/logs/step_record.h"

namespace bascule {

// Examples for report.html: what a finished model says of single rows and of classes of the split judged last.

struct ReportPicture {
  std::string name;                // path as in the manifest
  std::string caption;             // of one of its rows: the alternative text
  std::vector<std::uint8_t> file;  // its bytes, embedded as they are
};

// Retrieval: a query and the rows that it finds, each a picture or a text.
inline constexpr std::size_t kNoPicture = static_cast<std::size_t>(-1);
struct RetrievalHit {
  std::size_t picture = kNoPicture;  // index into Report::pictures; of a text none
  std::string text;
  double score = 0.0;
  bool right = false;
};
struct RetrievalExample {
  std::size_t picture = kNoPicture;  // of the query, as above
  std::string text;
  std::vector<RetrievalHit> hits;  // best first, about five
  RetrievalHit right_hit;          // the best of the right ones
  std::int64_t right_rank = 0;     // its place among all, from 1; 0: unknown
};

// A class or a token that the model names.
struct Guess {
  std::string name;
  double probability = 0.0;
  bool right = false;
};

// Classes.
struct ClassAccuracy {
  std::string name;
  std::int64_t rows = 0, right = 0;
};
struct Confusion {
  std::string label, predicted;
  std::int64_t rows = 0;
};
struct ClassExample {
  std::size_t picture = 0;  // index into Report::pictures
  std::string label;
  std::vector<Guess> guesses;  // best first, at most five
};

// Texts with a label that the model got wrong.
struct TextMistake {
  std::string text, second_text;  // of a pair
  std::string label;
  std::vector<Guess> guesses;  // best first, at most five
};
struct TextValue {
  std::string text, second_text;  // of a pair
  double label = 0.0, predicted = 0.0;
};

// Words with tags.
struct EntityFigures {
  std::string type;
  double precision = 0.0, recall = 0.0, f1 = 0.0;
  std::int64_t labelled = 0, predicted = 0;
};
struct MarkedEntity {
  std::string type;
  std::size_t begin = 0, end = 0;  // words [begin, end)
  bool right = false;              // labelled and predicted alike
};
struct TaggedText {
  std::vector<std::string> words;
  std::vector<MarkedEntity> labelled, predicted;  // in order
};

// Masked tokens.
struct ShownToken {
  std::string text;            // that the model saw
  std::string expected;        // of a token that was to be predicted; empty: it was not
  std::vector<Guess> guesses;  // for it, best first, at most five
};
struct SentenceExample {
  std::vector<ShownToken> tokens;
  // For a pair of texts: whether the second one follows the first one, the model's answer, and its probability.
  bool is_pair = false, follows = false, predicted_to_follow = false;
  double probability = 0.0;
};

// A text that the model wrote, beside its source and the target of the file.
struct TextExample {
  std::string source, reference, generated;
  double rouge[4] = {};  // 1, 2, L, Lsum, times 100
};

// One table of facts with a heading: loader, media engine, build.
struct FactTable {
  std::string title;
  std::string note;  // a sentence under the heading; may be empty
  std::vector<NamedText> rows;
};

// Faults that a media engine with a device recovered from in the whole run.
struct DeviceReport {
  bool is_there = false;            // the media engine has a device
  std::string engine;               // "hpu_sim"
  std::uint64_t resets = 0;         // of the device, by its driver
  std::uint64_t retries = 0;        // jobs that the driver submitted again
  bool fell_back = false;           // the device was given up; the host engine went on
  std::uint64_t fallback_jobs = 0;  // jobs that the device left undone
  struct Fault {
    std::string name;  // "lost_completion"
    std::uint64_t count = 0;
  };
  std::vector<Fault> faults;  // found by the driver
};

struct MemoryCategory {
  std::string name;  // "weights", "gradients", "moments", "activations", ...
  std::uint64_t bytes = 0;
  std::string note;  // may be empty
};

// One operation of the mean step, in the order of the tape.
struct TracedOperation {
  std::string place;  // "text_model.encoder.layer.3"
  std::string name;   // "linear_backward"
  double seconds = 0.0;
  double gflops_per_second = 0.0;  // 0: not counted
};

enum class ContractState { kKept, kBroken, kNotChecked };
struct ContractResult {
  std::string name;  // "Memory"
  ContractState state = ContractState::kNotChecked;
  std::string detail;  // "resident 612 MiB, planned 608 MiB (+0.7 %)"
};

// Training over all processes of a run, that is, over its resumes: what led to the result.
struct WholeRun {
  std::int64_t processes = 1;
  std::int64_t steps = 0;           // fewer than global_step where a checkpoint of an older version was resumed
  double seconds = 0.0;             // as in TrainSummary, summed
  double samples_per_second = 0.0;  // over the counted time of all of them
  double steps_per_second = 0.0;
};

struct TrainSummary {
  bool done = false;                // false: this run did not train
  double train_loss = 0.0;          // mean over the steps of the run that have one; NaN: none has
  double seconds = 0.0;             // whole loop of this process, warm-up, evaluation and saving included
  double samples_per_second = 0.0;  // design, contract 6: after the warm-up steps, without evaluation and saving
  double steps_per_second = 0.0;    // the same
  bool counts_warmup = false;       // both are of all updates: there was no warm-up, or nothing after it
  double evaluation_seconds = 0.0;  // of this process
  double save_seconds = 0.0;        // the same
  StepTotals totals;                // where the time of this process went
  WholeRun whole;
  double total_flos = 0.0;  // floating point operations of the whole run; repeated ones do not count

  // False: training had ended before this process, which only evaluated.
  bool trained_here() const { return samples_per_second > 0.0; }
};

// Figures of the training stream in this process.
struct LoaderSummary {
  double could_deliver_samples_per_second =
      0.0;                               // if no step held it up, at least what it did deliver; NaN: not measured
  double step_waited_seconds = 0.0;      // the step for data
  double waited_for_step_seconds = 0.0;  // the workers for the step, summed over them
  double ring_occupancy = 0.0;           // slots ready when the step asked, mean
  std::int64_t ring_slots = 0;
  std::int64_t bad_samples = 0;  // replaced by others, in the whole run
};

// Gradients between machines, those of this one, in this process.
struct WireSummary {
  bool is_there = false;  // false: one machine
  std::int64_t updates = 0;
  std::uint64_t gradient_bytes = 0;                  // of one update, as they travel
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // without what MPI and the network add
  double wait_seconds = 0.0;                         // by rank 0, for sums of other machines
};

// The best evaluation while training, and what came of it.
struct BestSummary {
  bool is_known = false;  // false: nobody asked for one, or none was made
  std::string figure;     // "loss", or the key of a metric
  double value = 0.0;
  std::int64_t step = 0;
  std::string checkpoint;           // its folder; empty: it was not saved
  std::int64_t weights_of = 0;      // the update whose weights the run ends with
  std::string stopped_early;        // why training ended before its last update; empty: it did not
  std::int64_t schedule_steps = 0;  // of the schedule, where `bascule stop` ended training; 0: it did not
};

// A sample that was skipped, as people find it.
struct BadSample {
  std::string split;
  std::int64_t epoch = 0;
  std::string row;          // "train.jsonl:17"
  std::string picture;      // as written
  std::string reason;       // what is wrong with it
  std::string replaced_by;  // the row whose sample was taken instead; "": it was left out
};

// How many rows a split has, and what became of them.
struct SplitRows {
  Split split = Split::kTrain;
  std::int64_t rows = 0;          // of its file
  std::int64_t judged = -1;       // by its last evaluation; -1: none, as in training
  std::int64_t skipped = 0;       // evaluation: rows left out. Training: times that another row was taken
  std::int64_t skipped_rows = 0;  // distinct rows among those that are listed
  std::int64_t listed = 0;
  bool list_is_full = false;  // then skipped_rows may be more
};
// "train: 2 rows skipped, 10 times in all, another row in place of each", "test: 1 row left out, 23 judged".
std::string skipped_text(const SplitRows& split);

// These say what the throughput of a run and its training time count, wherever the two stand beside each other.
inline const char* throughput_counts(bool counts_warmup) {
  return counts_warmup ? "with warm-up, without evaluation and saving" : "without warm-up, evaluation and saving";
}
inline constexpr char kTrainingTimeCounts[] = "with warm-up, evaluation and saving";

// Everything that a finished run says of itself. Empty parts are omitted from the outputs.
struct Report {
  // The run and its model.
  std::string title;  // e.g. base name of the output folder
  std::string output_dir;
  std::string settings_file;
  std::string model_name;                // model_name_or_path
  std::string model_kind;                // the family, for people
  std::string architecture, processor;   // Hugging Face classes
  std::string auto_class;                // loads the architecture from code in the folder; empty: it needs none
  std::string head;                      // model.head
  std::vector<std::string> tags;         // of the model card, as is the next
  std::string library = "transformers";  // of Python, which loads the folder
  std::string pipeline_tag;
  std::string preparation_note;                  // see ModelCardWords
  std::string dataset;                           // train_file as written
  std::string validation_dataset, test_dataset;  // as written; empty: none
  std::string finished_at;                       // "2026-11-21 14:03 UTC"; may be empty

  // Rows of the splits that the run used. Skipped samples, and how many there were in all: the list has an end.
  std::vector<SplitRows> rows;
  std::vector<BadSample> bad_samples;
  std::int64_t bad_sample_count = 0;

  // How far.
  std::int64_t global_step = 0;
  std::int64_t max_steps = 0;
  double epoch = 0.0;
  double num_train_epochs = 0.0;
  std::int64_t logging_steps = 0;
  std::int64_t eval_steps = 0;
  std::int64_t save_steps = 0;
  std::int64_t train_batch_size = 0;  // per device
  std::int64_t parameters = 0;
  std::int64_t trained_parameters = 0;

  // Records.
  TrainSummary train;
  std::vector<StepRecord> steps;
  std::vector<EvaluationRecord> evaluations;           // validations in the order of steps, then the test
  std::vector<EvaluationRecord> final_evaluations;     // of the weights that the run ends with, one of each split
  std::vector<EvaluationRecord> averaged_evaluations;  // the same of the averaged weights; empty: none are kept
  std::vector<EvaluationRecord> averaged_curve;        // their validations in the order of steps
  Metrics metrics;                                     // that the evaluations may have
  std::string metrics_note;                            // Markdown: how some of them are defined; may be empty
  BestSummary best;

  LoaderSummary loader;
  WireSummary wire;

  // Memory.
  std::vector<MemoryCategory> memory;  // of the plan's peak
  std::uint64_t planned_bytes = 0;
  std::uint64_t lower_bound_bytes = 0;
  std::uint64_t resident_bytes = 0;  // measured; 0: unknown
  std::uint64_t machine_bytes = 0;   // what the machine or its control group has; 0: unknown
  std::string recomputation;         // how much of a step is repeated to save memory; empty: nothing
  std::string arena_svg;             // a picture of the training workspace over one step; empty: none

  // Time by operation, summed over the run; empty: not measured.
  std::vector<OperationTime> operations;
  std::vector<TracedOperation> trace;  // [report] profile = true

  std::vector<ContractResult> contracts;
  std::vector<FactTable> facts;
  DeviceReport device;

  // These are of the split that was judged last; the head decides which there are.
  std::vector<ReportPicture> pictures;
  // Captions that find pictures, pictures that find captions, queries that find texts.
  std::vector<RetrievalExample> caption_examples, picture_examples, query_examples;
  EmbeddingMap map;
  std::vector<ClassAccuracy> class_accuracies;  // the least accurate first
  std::vector<Confusion> confusions;            // the most frequent first
  std::vector<ClassExample> class_examples;
  std::vector<TextMistake> text_mistakes;     // those that the model was surest of first
  std::vector<TextValue> text_values;         // those that are furthest off first
  std::vector<EntityFigures> entity_figures;  // by type
  std::vector<TaggedText> tagged_texts;       // those with the most mistakes first
  std::vector<SentenceExample> sentence_examples;
  std::vector<TextExample> text_examples;  // the best first

  // Settings that decide numbers: "training.learning_rate" -> "1e-05"; in the order of the file.
  std::vector<NamedText> settings;
  std::vector<NamedText> all_settings;  // as `bascule settings` prints them
  // Build, ISA, media engine, seed, digests, host: what is needed to get the same bits.
  std::vector<NamedText> provenance;
};

// Fills `evaluations` and `final_evaluations`. curve: the validations that a log of limited room kept. A final
// validation that is not among them, because the log dropped it or because it is of other rows, gets its place among
// them.
void set_evaluations(Report* report, Span<const EvaluationRecord> curve, std::vector<EvaluationRecord> final_ones);

// The evaluation of a split with the weights that the run ends with, or nullptr.
const EvaluationRecord* last_evaluation(const Report& report, Split split);
// The same of the averaged weights.
const EvaluationRecord* averaged_evaluation(const Report& report, Split split);

// A part of a mean step: a phase, or the rest.
struct StepShare {
  const char* name;
  double seconds, share;
};
std::vector<StepShare> step_shares(const StepTotals& totals);

// The result files, with Hugging Face's names, keys and roundings, each as its text.
std::string train_results_json(const Report& report);
// The file of one split: keys start with eval_, as in the published runs. "" if the split was not evaluated.
std::string split_results_json(const Report& report, Split split);
// All of them: the keys of a split start with its name, train_, validation_ and test_.
std::string all_results_json(const Report& report);
std::string trainer_state_json(const Report& report);
// A trace for chrome://tracing and Perfetto: the mean step on one line, operation after operation, microseconds.
std::string trace_json(const Report& report);
// Writes those that apply into report.output_dir, each beside and renamed.
void write_result_files(const Report& report);

// The tables that a run prints at its end: headline figures, where the time went, contracts kept or broken; aligned for
// a terminal of 80 columns or more.
std::string summary_text(const Report& report);
// Parts of it.
std::string time_table(const Report& report);
std::string contract_table(const std::vector<ContractResult>& contracts);

// The model card: README.md of the output folder, as the Hugging Face hub reads it (YAML header, then Markdown).
std::string model_card(const Report& report);

// report.html: the whole run on one page. The text is about 250 KB plus 4/3 of the embedded pictures' bytes.
std::string report_html(const Report& report);
// Its examples, and the rules of the pictures that they show.
std::vector<HtmlSection> example_sections(const Report& report);
std::string picture_styles(const Report& report);

}  // namespace bascule
