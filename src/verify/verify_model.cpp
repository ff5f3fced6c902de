// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_case.h"

#include <algorithm>
#include <iterator>

#include "src/base/error.h"
#include "src/checkpoint/hf_folder.h"
#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {

RecordOptions options_of(const CaseFiles& files) {
  RecordOptions options;
  options.frozen = strings_of(files, "freeze");
  options.label_smoothing = static_cast<float>(files.label_smoothing);
  options.mixed_labels = files.has_mixed_labels;
  options.height = files.height;
  options.width = files.width;
  return options;
}

// Labels that the model's fields read. A case without them has outputs alone: then the samples are of class 0, and no
// token has a label, which no output depends on.
void complete_labels(const CaseFiles& files, const Fields& fields, std::int64_t k, PaddedBatch* batch) {
  const auto complete = [&](auto* labels, std::int64_t count, auto placeholder) {
    if (!labels->empty()) return;
    if (files.contents.reads_labels())
      throw Error(ErrorKind::kData, files.folder + "/batch.safetensors",
                  "batch" + std::to_string(k) + " has no labels, but the case has a loss, gradients or a training run");
    labels->assign(static_cast<std::size_t>(count), placeholder);
  };
  for (const Field& field : fields) {
    if (field.source == FieldSource::kMatchLabels || field.source == FieldSource::kClassLabels)
      complete(&batch->labels, batch->samples, 0);
    if (field.source == FieldSource::kMaskedLabels || field.source == FieldSource::kTokenLabels)
      complete(&batch->texts[field.text].token_labels, batch->samples * batch->texts[field.text].length, -100);
    if (field.source == FieldSource::kLabelValues) complete(&batch->label_values, batch->samples, 0.0f);
  }
}

}  // namespace

CaseModel::CaseModel(const CaseFiles& files, Precision precision, const KernelTable& kernels, int threads)
    : files_(files), precision_(precision), fields_(files.model->fields(options_of(files))) {
  const std::int64_t count = get_int(files_.description, "batches", files_.folder);
  if (count < 1) throw Error(ErrorKind::kData, files_.folder + "/case.json", "\"batches\" is less than 1");
  for (std::int64_t k = 0; k < count; ++k) {
    batches_.push_back(read_batch(files_, k));
    complete_labels(files_, fields_, k, &batches_.back());
  }
  threads_ = std::make_unique<Threads>(threads, false);
  const CaseContents& contents = files_.contents;
  evaluates_ = precision != Precision::kBf16 && (contents.outputs || contents.loss);
  if (evaluates_) open(&evaluation_, false, kernels);
  // The losses of a bare model, and in bf16 of each, are those of the training graph.
  trains_ = contents.gradients || contents.run || (contents.loss && evaluation_.recording.losses.empty());
  if (trains_) open(&training_, true, kernels);
}

void CaseModel::open(Copy* copy, bool trains, const KernelTable& kernels) {
  record(copy, trains);
  if (trains) {
    TrainingOptions options;
    options.optimizer = &optimizer_kind(files_.optimizer);
    copy->session.train(options);
  }
  copy->session.seal_alone(kernels, threads_->count());
  const TensorSource source = open_hf_weights(files_.folder);
  StartWork work;
  load_parameters(&work, source, copy->session.parameter_memory(), *files_.model, 0);
  work.run(*threads_);
}

PackedBatch CaseModel::pack(std::int64_t batch, bool every_row) const {
  return PackedBatch(batches_[static_cast<std::size_t>(batch)], files_.inputs, every_row, files_.folder);
}

void CaseModel::record(Copy* copy, bool trains) {
  BatchCounts bounds;
  for (std::int64_t k = 0; k < static_cast<std::int64_t>(batches_.size()); ++k) {
    const BatchCounts counts = pack(k, true).counts(fields_);
    for (int stream = 0; stream < kMaxStreams; ++stream) bounds[stream] = std::max(bounds[stream], counts[stream]);
  }
  Graph& graph = copy->session.add_graph(bounds, fields_);
  copy->recording = files_.model->record(graph, trains ? Use::kTrain : Use::kReference, options_of(files_));
  if (trains) derive(graph, &copy->recording);
  if (precision_ == Precision::kBf16) choose_element_types(graph);
}

void CaseModel::derive(Graph& graph, Recording* recording) {
  if (recording->losses.empty()) {
    std::vector<std::pair<Tensor, Tensor>> pairs;
    for (const ReferenceOutput& output : recording->reference) {
      const Tensor tensor = output.tensors.front();
      const Tensor input = graph.input("cotangent." + output.name, graph[tensor].rows, graph[tensor].cols);
      cotangents_.push_back({output, input});
      pairs.emplace_back(tensor, input);
    }
    recording->losses = {{"loss", cotangent_loss(graph, pairs)}};
  }
  derive_backward(graph);
}

void CaseModel::read_cotangents(std::int64_t batch, const PackedBatch& packed) {
  for (const auto& [output, input] : cotangents_) {
    std::vector<float> values =
        read_floats(files_.batches, "batch" + std::to_string(batch) + ".cotangent." + output.name, files_.folder);
    if (output.rows == ReferenceRows::kTokens)
      values = pick_rows(values, packed.padded_row(output.text), training_.session.graph(0)[input].cols);
    std::copy(values.begin(), values.end(), training_.session.tape(0).at(input));
  }
}

double CaseModel::step(const std::vector<std::int64_t>& batches) {
  const Tape& tape = training_.session.tape(0);
  const double weight = 1.0 / static_cast<double>(batches.size());
  double loss = 0.0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const PackedBatch packed = pack(batches[i], false);  // masked LM: logits of labelled rows only
    read_cotangents(batches[i], packed);
    Replay replay;
    replay.batch = packed.batch(fields_);
    std::fill(std::begin(replay.loss_weights), std::end(replay.loss_weights), static_cast<float>(weight));
    replay.add_to_gradients = i > 0;
    tape.replay(*threads_, replay);
    for (const LossTerm& term : training_.recording.losses) loss += weight * static_cast<double>(*tape.at(term.loss));
  }
  return loss;
}

PackedBatch CaseModel::evaluate() {
  PackedBatch packed = pack(0, true);
  Replay replay;
  replay.batch = packed.batch(fields_);
  evaluation_.session.tape(0).replay(*threads_, replay);
  return packed;
}

}  // namespace bascule
