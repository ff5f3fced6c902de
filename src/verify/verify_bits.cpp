// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/runtime/choose_isa.h"
#include "src/runtime/guard.h"
#include "src/session/packed_batch.h"
#include "src/session/session.h"
#include "src/update/schedule.h"

namespace bascule {
namespace {

constexpr std::uint64_t kSeed = 20261122;
constexpr std::int64_t kSamplesOfUpdate[] = {11, 2, 3};
constexpr std::int64_t kLongest = 15;  // tokens of a text
constexpr std::size_t kTrain = 0, kEvaluation = 1;

std::int64_t mixed(std::int64_t a, std::int64_t b, std::int64_t modulus) { return (a * 7919 + b * 104729) % modulus; }

// Appends one text of a sample. has_labels: one token in three is labelled, with another one; is_target: it is what a
// decoder predicts, and every token has itself for a label; tags: above 0, two tokens in three have one below it.
void add_text(PaddedText* text, const TextShape& shape, std::int64_t sample, bool has_labels, bool is_target,
              std::int64_t tags) {
  const std::int64_t length = 3 + mixed(sample, is_target ? 5 : 1, kLongest - 2);
  for (std::int64_t t = 0; t < text->length; ++t) {
    const bool present = t < length;
    const std::int64_t first_word = shape.positions.skipped_id + 1;
    const std::int64_t word =
        first_word + mixed(sample + 1, t * t + (is_target ? 8 : 3), shape.vocabulary_size - first_word);
    text->input_ids.push_back(present ? word : 0);
    text->attention_mask.push_back(present ? 1 : 0);
    if (tags > 0) {
      text->token_labels.push_back(present && (t + sample) % 3 != 1 ? mixed(sample, t, tags) : -100);
    } else if (is_target) {
      text->token_labels.push_back(present ? word : -100);
    } else if (has_labels) {
      text->token_labels.push_back(present && (t + sample) % 3 == 1 ? (word + 11) % shape.vocabulary_size : -100);
    }
  }
}

// Pixels and tokens are functions of their coordinates, exact in float32.
PaddedBatch make_batch(const ModelInputs& inputs, const Fields& fields, std::int64_t first, std::int64_t samples) {
  PaddedBatch batch;
  batch.first_sample = first;
  batch.samples = samples;
  for (int text = 0; text < kMaxTexts; ++text)
    batch.texts[text].length = inputs.texts[text].vocabulary_size > 0 ? kLongest : 0;
  const int keys = field_from(fields, FieldSource::kImageRowKeys);
  if (keys >= 0) batch.image_rows = fields[static_cast<std::size_t>(keys)].rows.per_row;
  const bool masked = field_from(fields, FieldSource::kMaskedRows) >= 0;
  const bool matches = field_from(fields, FieldSource::kMatchLabels) >= 0;
  const bool classifies = field_from(fields, FieldSource::kClassLabels) >= 0;
  for (std::int64_t sample = first; sample < first + samples; ++sample) {
    for (int text = 0; text < kMaxTexts; ++text) {
      const bool is_target = field_from(fields, FieldSource::kTokenLabels, text) >= 0;
      const std::int64_t columns = text == 0 ? inputs.texts_in_a_row : 1;
      for (std::int64_t column = 0; column < columns; ++column)
        add_text(&batch.texts[text], inputs.texts[text], sample * columns + column, masked, is_target,
                 inputs.reads_words ? inputs.classes : 0);
    }
    if (matches) batch.labels.push_back(sample % 2);
    if (classifies) batch.labels.push_back(sample % inputs.classes);
    if (inputs.has_values) batch.label_values.push_back(static_cast<float>(sample % 7 - 3) / 2.0f);
    for (std::int64_t i = 0; i < inputs.image_channels * inputs.image_side * inputs.image_side; ++i)
      batch.pixels.push_back(static_cast<float>(mixed(sample, i, 2039) - 1019) / 512.0f);
  }
  return batch;
}

// Bytes of tensors whose elements have four bytes; names keep one's values from passing for another's.
class BitsDigest {
 public:
  void add(const std::string& name, const void* values, std::int64_t count) {
    digest_.add(name.data(), name.size());
    digest_.add(values, static_cast<std::size_t>(count) * sizeof(float));
  }
  void add_number(double number) { digest_.add(&number, sizeof number); }
  std::uint64_t value() const { return digest_.value(); }

 private:
  Digest digest_;
};

// One of the family's small models, recorded, planned and sealed with its batches.
class BitsRun {
 public:
  BitsRun(const Model& model, Precision precision, const KernelTable& kernels, int threads) {
    RecordOptions training, evaluation;
    training.dropout = true;
    training.label_smoothing = 0.1f;
    evaluation.predictions = true;
    fields_ = model.fields(training);
    evaluation_fields_ = model.fields(evaluation);
    const ModelInputs inputs = model.inputs();
    BatchCounts bounds;
    std::int64_t first = 0;
    for (const std::int64_t samples : kSamplesOfUpdate) {
      batches_.emplace_back(make_batch(inputs, fields_, first, samples), inputs, false, "verify --bits");
      const BatchCounts counts = batches_.back().counts(fields_);
      for (int stream = 0; stream < kMaxStreams; ++stream) bounds[stream] = std::max(bounds[stream], counts[stream]);
      first += samples;
    }
    Graph& train = session_.add_graph(bounds, fields_);
    trained_ = model.record(train, Use::kTrain, training);
    derive_backward(train);
    Graph& evaluate = session_.add_graph(bounds, evaluation_fields_);
    evaluated_ = model.record(evaluate, Use::kEvaluate, evaluation);
    if (precision == Precision::kBf16) {
      for (Graph* graph : {&train, &evaluate}) choose_element_types(*graph);
    }
    threads_ = std::make_unique<Threads>(threads, false);
    session_.train({});
    session_.seal_alone(kernels, threads);
    StartWork work;
    initialise_parameters(&work, session_.parameter_memory(), kSeed);
    work.run(*threads_);
  }

  void replay() noexcept {
    const Schedule schedule = {Scheduler::kCosine, 5e-3, 1, static_cast<std::int64_t>(kUpdates) + 1};
    for (std::size_t step = 0; step < kUpdates; ++step) {
      Replay replay;
      replay.batch = batches_[step].batch(fields_);
      replay.dropout_key[0] = static_cast<std::uint32_t>(kSeed);
      replay.dropout_key[1] = static_cast<std::uint32_t>(step);
      session_.tape(kTrain).replay(*threads_, replay);
      UpdateSettings settings;
      settings.step = static_cast<std::int64_t>(step) + 1;
      settings.learning_rate = schedule.at(settings.step);
      settings.weight_decay = 0.01;
      settings.max_grad_norm = 1.0;
      for (const LossTerm& term : trained_.losses)
        updates_[step].loss += static_cast<double>(*session_.tape(kTrain).at(term.loss));
      updates_[step].norm = session_.training().update().run(*threads_, settings);
      updates_[step].rate = settings.learning_rate;
    }
    Replay replay;
    replay.batch = batches_[0].batch(evaluation_fields_);
    session_.tape(kEvaluation).replay(*threads_, replay);
  }

  void add_to(BitsDigest* digest) const {
    for (const Update& update : updates_) {
      for (const double number : {update.loss, update.norm, update.rate}) digest->add_number(number);
    }
    const BatchCounts counts = batches_[0].counts(evaluation_fields_);
    const Tape& evaluation = session_.tape(kEvaluation);
    for (const LossTerm& term : evaluated_.losses) digest->add(term.name, evaluation.at(term.loss), 1);
    for (const NamedTensor& output : evaluated_.outputs) {
      const TensorInfo& info = session_.graph(kEvaluation)[output.tensor];
      const void* const values = info.dtype == DType::kInt32
                                     ? static_cast<const void*>(evaluation.at_int32(output.tensor))
                                     : evaluation.at(output.tensor);
      digest->add(output.name, values, info.rows.at(counts) * info.cols);
    }
    const ParameterMemory memory = session_.parameter_memory();
    const std::vector<StateRange>& states = session_.training().optimizer_states().ranges;
    std::vector<std::vector<StateTensor>> state_of;
    state_of.reserve(states.size());
    for (const StateRange& range : states) state_of.push_back(state_tensors(range.state, *memory.set, *memory.layout));
    std::size_t trained = 0;  // tensors so far
    for (int p = 0; p < memory.set->size(); ++p) {
      const ParameterLayout::Place& place = memory.layout->places[static_cast<std::size_t>(p)];
      for (const ParameterPiece& piece : (*memory.set)[p].pieces) {
        digest->add(piece.name, memory.at(p) + piece.first_element, piece.elements);
        if (!place.trained) continue;
        for (std::size_t i = 0; i < states.size(); ++i) {
          const StateTensor& tensor = state_of[i][trained];
          digest->add(states[i].state.name, states[i].values + tensor.first, element_count(tensor.shape));
        }
        ++trained;
      }
    }
  }

 private:
  struct Update {
    double loss = 0.0, norm = 0.0, rate = 0.0;
  };

  static constexpr std::size_t kUpdates = std::size(kSamplesOfUpdate);

  Session session_;
  Recording trained_, evaluated_;
  Fields fields_, evaluation_fields_;
  std::vector<PackedBatch> batches_;
  std::unique_ptr<Threads> threads_;
  Update updates_[kUpdates];
};

std::string hexadecimal(std::uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest);
  return text;
}

}  // namespace

std::uint64_t compute_bits(Isa isa, int threads, Bf16Law law) {
  BitsDigest digest;
  for (const Precision precision : {Precision::kFloat32, Precision::kBf16}) {
    if (precision == Precision::kFloat32 && law == Bf16Law::kTiles) continue;
    for (const Family* family : families()) {
      if (family->small_models == nullptr) continue;
      for (const std::unique_ptr<Model>& model : family->small_models()) {
        BitsRun run(*model, precision, kernels_for(isa, law), threads);
        seal_memory();
        run.replay();
        open_memory();
        run.add_to(&digest);
      }
    }
  }
  return digest.value();
}

int print_bits(std::uint64_t digest, std::uint64_t recorded, Isa isa, int threads, bool json) {
  const bool passed = digest == recorded;
  if (json) {
    const Json document = {{"passed", passed},
                           {"digest", hexadecimal(digest)},
                           {"expected", hexadecimal(recorded)},
                           {"isa", isa_name(isa)},
                           {"threads", threads}};
    std::printf("%s\n", json_text(document).c_str());
  } else if (passed) {
    std::printf("passed: the training run has the digest that is recorded for every machine, %s (%s, %s)\n",
                hexadecimal(digest).c_str(), isa_name(isa), count_of(threads, "thread").c_str());
  } else {
    std::printf("FAILED: the training run has the digest %s, not the recorded %s (%s, %s)\n",
                hexadecimal(digest).c_str(), hexadecimal(recorded).c_str(), isa_name(isa),
                count_of(threads, "thread").c_str());
  }
  return passed ? 0 : exit_code(ErrorKind::kNotAsRecorded);
}

int verify_bits_command(const VerifyArguments& arguments) {
  const Bf16Law law = law_of(arguments);
  const Isa isa = choose_isa(arguments.isa, law);
  const int threads = verify_threads(arguments);
  return print_bits(compute_bits(isa, threads, law), law == Bf16Law::kTiles ? kRecordedBitsOfTiles : kRecordedBits, isa,
                    threads, arguments.json);
}

}  // namespace bascule
