// SPDX-License-Identifier: Apache-2.0
// One reference case: its files, our run of it, and the judgement. Layout of a case: tests/data/goldens/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/models/model.h"
#include "src/runtime/threads.h"
#include "src/session/packed_batch.h"
#include "src/session/session.h"
#include "src/settings/settings.h"

namespace bascule {

// The contents of a reference case, worked out from case.json and the tensors beside it. Nothing that it lacks is
// demanded; tensors that this program does not compute have a line in `not_compared`, and the case may pass all the
// same. A tensor that no line names and no graph computes fails.

struct NotCompared {
  std::string name;  // of a tensor, or what several are together
  std::string reason;
};

// In bf16 the loss and gradients alone have a limit.
struct CaseContents {
  bool loss = false;
  bool generated = false;  // generated.*, which the model's generation makes
  bool outputs = false;    // expected.safetensors: tensors that are neither the loss nor gradients nor generated
  bool gradients = false;  // grad.*, or grad_sample.* and grad_l2.* of a large case
  bool run = false;        // updates of an optimizer and a schedule that this program has
  std::vector<NotCompared> not_compared;

  bool reads_labels() const { return loss || gradients || run; }
};

// The files of one case that say what it holds. Borrowed.
struct CaseStatements {
  const std::string& folder;
  const Json& description;       // case.json
  const Json& errors;            // float32_error.json
  bool generates = false;        // the model
  const TensorSource& expected;  // without tensors where the case has no such file
  bool has_steps_file = false;   // steps.safetensors
};

// Throws Error kData.
CaseContents contents_of(const CaseStatements& files, Precision precision);

// The optimizers and schedules of the cases; null: this program has none of that name.
const Optimizer* find_optimizer(const std::string& name);
const Scheduler* find_scheduler(const std::string& name);

// train: the object in case.json. Throw Error kData for a value that is no text.
std::string optimizer_name(const Json& train, const std::string& where);
std::string scheduler_name(const Json& train, const std::string& where);

// The files of one reference case, of which expected.safetensors and steps.safetensors may be missing. Layout:
// tests/data/goldens/README.md. Everything throws Error kData naming the file.

// Elements [start, stop) of a parameter whose gradient is zero in exact arithmetic.
struct Slice {
  std::string parameter;
  std::int64_t start = 0, stop = 0;
};

struct CaseFiles {
  std::string folder;
  Json description, errors;
  TensorSource batches, expected, steps;
  CaseContents contents;
  std::unique_ptr<Model> model;
  ModelInputs inputs;
  std::vector<Slice> zero_gradient;
  double gradient_norm = 0.0;          // 0 where no gradient is zero in exact arithmetic
  std::int64_t height = 0, width = 0;  // of pictures
  std::int64_t bf16_draws = 1;         // its figures of autocast are the worst of so many runs
  double label_smoothing = 0.0;
  Optimizer optimizer = Optimizer::kAdamW;
  bool has_mixed_labels = false;

  // Null: none of its elements. Throws where the slice is not of so many.
  const Slice* zero_slice(const std::string& parameter, std::size_t elements) const;
};

CaseFiles open_case(const std::string& folder, Precision precision);
// Strings of case.json; none where it has no such list.
std::vector<std::string> strings_of(const CaseFiles& files, const std::string& key);
PaddedBatch read_batch(const CaseFiles& files, std::int64_t k);
std::vector<std::int64_t> read_integers(const TensorSource& source, const std::string& name, const std::string& where);
std::vector<float> read_floats(const TensorSource& source, const std::string& name, const std::string& where);

// The model of a case, recorded, sealed and loaded for what the case holds: as a run trains it, and as an evaluation
// computes it, but with every output that the case knows.

class CaseModel {
 public:
  CaseModel(const CaseFiles& files, Precision precision, const KernelTable& kernels, int threads);

  // Whether step() can be called: the case holds gradients or a run, or a loss that only training computes.
  bool trains() const { return trains_; }
  // Whether evaluate() can be called: the case holds outputs or a loss, in float32.
  bool evaluates() const { return evaluates_; }

  // The loss of a batch, and gradients of the mean over all `batches`. `batches` are numbers of the case's batches.
  double step(const std::vector<std::int64_t>& batches);
  // Computes every output of batch 0. The batch says which row of the padded layout each text row is.
  PackedBatch evaluate();

  Session& training() { return training_.session; }
  Threads& threads() { return *threads_; }
  // After step(): false for the bare model, whose loss is a sum of outputs times given numbers.
  bool has_own_loss() const { return cotangents_.empty(); }

  // After evaluate().
  const Recording& recording() const { return evaluation_.recording; }
  const TensorInfo& info(Tensor tensor) const { return evaluation_.session.graph(0)[tensor]; }
  const float* at(Tensor tensor) const { return evaluation_.session.tape(0).at(tensor); }

 private:
  struct Copy {
    Session session;
    Recording recording;
  };

  void open(Copy* copy, bool trains, const KernelTable& kernels);
  PackedBatch pack(std::int64_t batch, bool every_row) const;
  void record(Copy* copy, bool trains);
  void derive(Graph& graph, Recording* recording);
  void read_cotangents(std::int64_t batch, const PackedBatch& packed);

  const CaseFiles& files_;
  const Precision precision_;
  Fields fields_;
  std::vector<PaddedBatch> batches_;
  bool trains_ = false, evaluates_ = false;
  Copy training_, evaluation_;
  // For the bare model: an output, and the input by which it is multiplied.
  struct Cotangent {
    ReferenceOutput output;
    Tensor input;
  };
  std::vector<Cotangent> cotangents_;
  std::unique_ptr<Threads> threads_;
};

enum class Measure {
  kRelativeL2,      // of the difference to the truth
  kOneMinusCosine,  // of the angle to the truth, in bf16
  kNorm,            // of a slice that is zero in exact arithmetic, a distance, or a count of faults
};

struct VerifiedTensor {
  std::string name;
  Measure measure = Measure::kRelativeL2;
  double error = 0.0;      // ours
  double reference = 0.0;  // that of the reference's run in float32, or in bf16; none for kNorm
  double limit = 0.0;
  bool passed() const { return error <= limit; }  // false for NaN
};

// The measure of an error, and the rule for its limit: see tests/data/goldens/README.md, "Passing".

constexpr double kFloor = 2e-6;         // of every limit
constexpr double kUpdateFloor = 1e-3;   // of the limit on what a run changed
constexpr double kAngleFloor = 1e-3;    // of every limit on a gradient's angle, in bf16
constexpr double kZeroGradient = 1e-6;  // of the gradient norm, where a gradient is zero in exact arithmetic

// Relative to the norm of the truth; absolute where the truth is zero; NaN for another number of elements.
double relative_l2(const std::vector<float>& ours, const std::vector<float>& truth);

// 1 minus the cosine of the angle between them; NaN for another number of elements, or if ours is all zero and the
// truth is not.
double one_minus_cosine(const std::vector<float>& ours, const std::vector<float>& truth);

// Rows of a tensor of `cols` columns, in the order that `rows` names them.
std::vector<float> pick_rows(const std::vector<float>& tensor, const std::vector<std::int64_t>& rows,
                             std::int64_t cols);

struct Judgement {
  std::vector<VerifiedTensor> tensors;
  std::vector<NotCompared> not_compared;

  // Limit: three times the reference's own error, or the floor if that is larger.
  void add(const std::string& name, double error, double reference, double floor);
  // Limit: twice the reference's own, or the floor if that is larger.
  void add_angle(const std::string& name, double error, double reference, double floor = kAngleFloor);
  // A norm, a distance, or a count of faults with a limit of its own.
  void add_norm(const std::string& name, double norm, double limit);
  // Fails for each tensor of the reference that was compared with nothing, and of which nothing says why. series: those
  // that are judged step by step.
  void add_the_rest(const TensorSource& source, const std::set<std::string>& series = {});
};

struct VerifiedCase : Judgement {
  std::string name;
  std::int64_t bf16_draws = 0;  // in bf16: the reference's errors are the worst of so many runs of autocast
  std::string unknown;          // why nothing is compared: this program lacks the family or head of the case
  // Whether something was compared, and all of it is within its limit.
  bool passed() const;
};

// A case of a model. In float32: outputs, gradients and the training run, as far as the case holds them. In bf16: loss
// and gradients. Throws Error.
void judge_model(const std::string& folder, Precision precision, const KernelTable& kernels, int threads,
                 VerifiedCase* result);

// A case's gradients, ours beside those that it stores: whole, or of a large case elements k * max(1, count / S), for
// its S samples. Layout: tests/data/goldens/README.md.

struct CaseGradient {
  std::string name;                 // of the parameter
  std::size_t elements = 0;         // of the parameter
  std::optional<double> zero_part;  // norm of our slice that is zero in exact arithmetic; below it is zero
  bool is_all_zero = false;         // that slice is the whole parameter: nothing below is set
  bool is_sampled = false;          // ours and truth: samples
  double length = 0.0;              // norm of our whole gradient
  std::vector<float> ours, truth;
};

// Calls judge with the gradient of each trained parameter's pieces, in the order of the parameters, after a step. A
// parameter of which the case holds neither the gradient nor its error has a line in not_compared instead. Throws Error
// kData.
void for_each_gradient(const CaseFiles& files, const Session& session, std::vector<NotCompared>* not_compared,
                       const std::function<void(const CaseGradient&)>& judge);

// A case in bf16: loss and gradients of batch 0, judged by what torch.autocast reaches.
//   gradient of a parameter of 64 elements or more: 1 - cosine at most max(0.001, twice autocast's), as
//     tests/data/goldens/README.md has it ("Passing"), and its length within a tenth of the truth's
//   slice that is zero in exact arithmetic: at most 2^-8 of the gradient norm
//   loss: error at most max(0.005, twice autocast's). Not of the bare model, which has no loss of its own.
// Autocast's figures are those of one run, or the worst of the case's `bf16_draws` runs, which differ widely.

// The case holds one of them: model->trains().
void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement);

// A case's training run: ours, with the schedule and the update of `bascule run`, judged by the reference's.

// Compares what the case has of a run: losses, gradient norms, rates, and the parameters at the end.
// files.contents.run is true.
void judge_training(const CaseFiles& files, CaseModel* model, Judgement* judgement);

// The model's generated ids in a case, all of which must be equal, and the scores of beams.

// Each entry of "generate" in case.json, for the first batch. Throws Error kData.
void judge_generation(const CaseFiles& files, const KernelTable& kernels, int threads, Judgement* judgement);

// rouge.json, where the case has one: the figures of pairs of texts, and stems of words.
void judge_rouge(const CaseFiles& files, Judgement* judgement);

// A reference case of a pipeline that draws: single calls of its models, and whole runs of its samplers. Layout:
// tests/data/goldens-families/README.md. In bf16 a tensor is judged by its angle: 1 - cosine at most max(0.0005, twice
// what torch gets with all weights bfloat16, where float32_error.json has that); bytes are not compared. Throws Error
// kData.
void judge_drawing(const std::string& folder, Precision precision, const KernelTable& kernels, int threads,
                   Judgement* judgement);

}  // namespace bascule
