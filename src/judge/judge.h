// SPDX-License-Identifier: Apache-2.0
// The interface of judges, and the judges by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "src/answer/report.h"
#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/logs/step_record.h"
#include "src/runtime/threads.h"
#include "src/text/tokenizer.h"

namespace bascule {

// A judge makes figures of an evaluation: it takes what each replay computed for the rows of its batch, and gives the
// loss over the split and metrics of its own. find_judge() gives it by its name. It knows no tape
// and no stream.
//
// Rows that were left out for a bad picture are in no figure: loss and metrics are of the rows judged, each batch's
// loss weighted by what each of its terms is a mean over (samples, or labelled tokens).
//
//   judge->bytes()                           record and plan: the constructor has planned its memory
//   judge->seal(memory, own_memory, outputs, products)   before the seal
//   judge->begin(rows)                       sealed
//   judge->take(batch, manifest)             every batch once, in any order, by any rank: its places are its own
//   judge->finish(threads, &record)          once all are taken; the rows judged are then together, in order
//   judge->write_files(files, &report)       after replay

// A tensor that a replay leaves to be read, by the name that the model gives it.
struct JudgedOutput {
  std::string name;
  std::int64_t cols = 1;
  const void* address = nullptr;  // at seal(): the same for every replay
};

// A term of the loss, as models/model.h has it: the output of that name, a mean over a batch's rows of the stream.
struct JudgedLoss {
  std::string output;
  int stream = kSamples;
};

struct JudgeShape {
  std::int64_t max_rows = 0;  // of the largest split
  std::int64_t batch = 1;     // rows of a batch, but for the last
  // Rows of the split whose predictions are kept, which can be one of many; 0: none are kept.
  std::int64_t predicted_rows = 0;
  std::vector<JudgedLoss>
      losses;  // the terms of the loss, which is their sum; at most kMaxLossTerms; none: it has none
  std::int64_t counted_of_a_row = 1;  // the most rows of the first one that belong to one row of the predicted split
  std::int64_t longest_text = 0;      // tokens
  std::vector<std::string> classes;   // their names by number, where the model names them
  // Where texts are generated: how ids become text, which id is no token of it, and the longest reference. Then the
  // outputs have "generated" (samples, most ids), "generated_counts", of ids, below 0 where none were generated, and
  // "generated_scores", floats.
  const TokenDecoder* decoder = nullptr;
  std::int32_t pad_id = 0;
  std::size_t longest_reference_bytes = 0;
  // Where documents are ranked for queries, by Manifest::relevance(): the most of a split.
  std::int64_t documents = 0, queries = 0;
  bool compares_by_dot = false;  // else by cosine
  Fields fields;                 // of the batches
  std::vector<JudgedOutput> outputs;
};

// The inputs of Judge::write_files().
struct JudgedFiles {
  std::string folder;
  Split split = Split::kValidation;
  const Manifest& manifest;
  const std::vector<std::string>& tokens;   // by id, as the tokenizer's files write them; where names_tokens()
  const std::vector<std::string>& classes;  // their names by number, where the model names them
  bool has_page = true;                     // whether report.html will show what the report has
};

class Judge : NonCopyable {
 public:
  virtual ~Judge() = default;

  std::size_t bytes() const { return bytes_; }
  // The memory of take(), which the ranks of a node do not share.
  std::size_t own_bytes() const { return own_bytes_; }
  // memory, own_memory: bytes() and own_bytes(), 64-byte aligned. outputs: those of the shape, with their addresses.
  void seal(std::byte* memory, std::byte* own_memory, const std::vector<JudgedOutput>& outputs, GemmLibrary& products);
  // The part of the memory that take() writes: what ranks put together before finish().
  Span<std::byte> taken() const;

  // Sealed. batch.rows are those of a stream in the order of the rows.
  void begin(std::int64_t rows, bool keeps_predictions = false) noexcept;
  void take(const Batch& batch, const Manifest& manifest) noexcept;
  // Fills in samples, loss and metrics. record->samples 0: every row was left out, and there is nothing else.
  void finish(Threads& threads, EvaluationRecord* record) noexcept;

  // After finish(): the manifest row that each of the rows judged is, ascending.
  Span<const std::int32_t> rows() const { return {judged_, static_cast<std::size_t>(rows_)}; }

  // The file that it leaves in the run's folder; empty: none.
  virtual const char* file() const = 0;
  // Bytes of it, about: for the check of the disk. of_manifest: of the manifest whose split is judged last.
  virtual std::int64_t file_bytes(std::int64_t of_manifest) const = 0;
  virtual bool names_tokens() const { return false; }
  // Writes the files of the split that was judged last. Throws Error.
  virtual void write_files(const JudgedFiles& files, Report* report) const = 0;

 protected:
  // The contents of each part of the memory, in the order of the parts.
  enum class Part {
    kRows,         // something of every row, or batch, of the split
    kPredictions,  // the same, only where predictions are kept
    kScratch,      // what finish() works with
    kOwn,          // what take() works with: of each rank
  };
  // The sums of one term of the loss. counted: the rows that it is a mean over.
  struct Sums {
    double loss = 0.0, counted = 0.0, right = 0.0;

    double mean() const { return counted > 0.0 ? loss / counted : 0.0; }
    double share_right() const { return counted > 0.0 ? right / counted : 0.0; }
  };

  explicit Judge(const JudgeShape& shape);

  // In the constructor: *place will have room for so many elements once sealed.
  template <typename T>
  void plan(Part part, T** place, std::int64_t count) {
    plan_bytes(part, static_cast<std::size_t>(count) * sizeof(T),
               [place](std::byte* memory) { *place = static_cast<T*>(static_cast<void*>(memory)); });
  }
  // In the constructor: *place will be where every replay leaves the output, once sealed. The model gives every output
  // that its judge reads, and declares every field: another name is a bug, which ends the program while it records.
  template <typename T>
  void read(const T** place, std::string_view name) {
    read_output(name, [place](const void* address) { *place = static_cast<const T*>(address); });
  }
  const JudgedOutput& output(std::string_view name) const;
  // Whether the outputs have texts.
  bool judges_texts() const { return shape_.decoder != nullptr; }
  // The number of a field, for Batch::field().
  int field_number(std::string_view name) const;
  const JudgeShape& shape() const { return shape_; }
  bool keeps_predictions() const noexcept { return keeps_predictions_; }

  // The memory has its place and the outputs have their addresses.
  virtual void found(GemmLibrary&) {}
  // Everything of a row goes to the row's place. sums: of the batch, by term of the loss; where right rows are counted,
  // sets their number.
  virtual void take_rows(const Batch& batch, const Manifest& manifest, Sums* sums) noexcept = 0;
  // Closes a gap that a row left. Predictions stay at their rows.
  virtual void move_row(std::int64_t to, std::int64_t from) noexcept = 0;
  // The metrics of the rows judged; sums: over all batches, by term.
  virtual void judge_rows(Threads& threads, const Sums* sums, EvaluationRecord* record) noexcept = 0;

 private:
  struct PlannedPart {
    Part part;
    std::size_t bytes;
    std::function<void(std::byte*)> place;
  };
  struct ReadOutput {
    std::string name;
    std::function<void(const void*)> place;
  };
  void plan_bytes(Part part, std::size_t bytes, std::function<void(std::byte*)> place);
  void read_output(std::string_view name, std::function<void(const void*)> place);
  void close_gaps() noexcept;

  JudgeShape shape_;
  std::vector<PlannedPart> parts_;
  std::vector<ReadOutput> read_;
  std::size_t bytes_ = 0, own_bytes_ = 0;
  std::byte* memory_ = nullptr;
  std::size_t row_bytes_ = 0, taken_bytes_ = 0;  // of kRows; of kRows and kPredictions
  bool keeps_predictions_ = false;
  const float* losses_[kMaxLossTerms] = {};
  Sums* sums_ = nullptr;  // by batch of the split and term
  std::int32_t* judged_ = nullptr;
  std::int64_t rows_ = 0;
};

// Metrics that several judges give.

inline constexpr Metric kAccuracy = {"accuracy", "accuracy", 6, true, false, 1, 1};
// The exponential of the loss.
inline constexpr Metric kPerplexity = {"perplexity", "perplexity", 8, false, true, 2};

// The judges by name. A model names the one that judges it (models/families.h).

struct JudgeKind {
  const char* name;
  Metrics metrics;
  // Whether it can keep something of each row of the test file; then the model is recorded with its predictions.
  bool predicts;
  const char* note;  // Markdown for the model card: how a metric is defined; may be empty
  std::unique_ptr<Judge> (*make)(const JudgeShape& shape);
};

// The kind of a judge that is made of the shape alone.
template <typename Made, std::size_t count>
constexpr JudgeKind judge_kind(const char* name, const Metric (&metrics)[count], bool predicts, const char* note = "") {
  return {name, {metrics, count}, predicts, note, [](const JudgeShape& shape) {
            return std::unique_ptr<Judge>(new Made(shape));
          }};
}

// A name that no judge has is a mistake in the family that names it.
const JudgeKind& judge_named(std::string_view name);

// A judge from outside src/: before main's command runs. The kind is kept by reference.
void add_judge(const JudgeKind& kind);

}  // namespace bascule
