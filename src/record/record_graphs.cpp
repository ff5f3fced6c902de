// SPDX-License-Identifier: Apache-2.0
#include "src/record/record_graphs.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/generate/generation_config.h"
#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/record/parameter_groups.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {
namespace {

RecordOptions options_of(const Settings& settings, Use use, const FamilyHead& head) {
  RecordOptions options;
  options.frozen = settings.model.freeze;
  if (use == Use::kTrain || head.smooths_evaluation)
    options.label_smoothing = static_cast<float>(settings.training.label_smoothing_factor);
  if (use != Use::kTrain) return options;
  options.dropout = settings.model.dropout == Dropout::kConfig;
  options.mixed_labels = mixes_labels(settings.data, settings.training);
  return options;
}

// Records the graph as the session's next one.
Graph& add_graph(RecordedRun* run, Use use, const BatchCounts& bounds, const RecordOptions& options) {
  RecordedGraph& recorded = run->graphs.by_use[use];
  recorded.number = run->session.graphs();
  Graph& graph = run->session.add_graph(bounds, run->opened.fields);
  recorded.recording = run->opened.model->record(graph, use, options);
  return graph;
}

void record_training(RecordedRun* run, const RecordedSplit& train, const FamilyHead& head) {
  run->session.set_groups(parameter_groups(run->settings.training), run->opened.model->body_prefix());
  BatchCounts bounds = run->data.plan.streams[train.stream].bounds;
  bounds[kSamplesOfAllRanks] = run->pace.length.gathered_samples;
  Graph& graph = add_graph(run, Use::kTrain, bounds, options_of(run->settings, Use::kTrain, head));
  BASCULE_CHECK(static_cast<int>(run->graphs[Use::kTrain].recording.losses.size()) == head.loss_terms);
  check_parameter_groups(run->settings.training, run->settings.origin, run->session.parameters());
  derive_backward(graph);
  if (run->settings.model.precision == Precision::kBf16) choose_element_types(graph);
}

// The most rows of a batch of any split that is evaluated, and of the whole split.
BatchCounts evaluated_bounds(const RunData& data, std::int64_t* max_rows) {
  BatchCounts bounds;
  for (const RecordedSplit& split : data.splits) {
    if (split.split == Split::kTrain) continue;
    const BatchCounts& own = data.plan.streams[split.stream].bounds;
    for (int stream = 0; stream < kMaxStreams; ++stream) {
      bounds[stream] = std::max(bounds[stream], own[stream]);
      bounds.longest[stream] = std::max(bounds.longest[stream], own.longest[stream]);
    }
    *max_rows = std::max(*max_rows, split.manifest->rows());
  }
  return bounds;
}

// Evaluations during training, and those at the end, which may be of other rows.
std::size_t planned_evaluations(const TrainingSettings& training, const TrainingLength& length) {
  const std::int64_t every =
      std::max<std::int64_t>(1, training.eval_strategy == Interval::kSteps   ? training.eval_steps
                                : training.eval_strategy == Interval::kEpoch ? length.updates_per_epoch
                                                                             : length.total_updates);
  return planned_records(std::max<std::int64_t>(2, length.total_updates), every, kMaxEvaluationRecords) + 2;
}

// How texts are searched for: as the settings say, with the ids of the folder.
SearchOptions search_options(const Settings& settings, std::int64_t vocabulary_size) {
  const GenerationSettings& generation = settings.generation;
  SearchOptions options = read_generation_ids(settings.model.model_name_or_path.resolved, vocabulary_size);
  options.num_beams = generation.num_beams;
  options.max_length = generation.length(settings.data);
  options.min_length = generation.least_length();
  options.length_penalty = generation.length_penalty;
  options.early_stopping = generation.early_stopping;
  options.no_repeat_ngram_size = generation.no_repeat_ngram_size;
  check_search_options(options, where_written(settings, "generation"));
  return options;
}

void record_texts(RecordedRun* run, const BatchCounts& bounds, JudgeShape* shape) {
  const Settings& settings = run->settings;
  if (!settings.training.predict_with_generate) return;
  RecordedTexts& texts = run->graphs.texts.emplace();
  texts.options = search_options(settings, run->opened.inputs.texts[kMaxTexts - 1].vocabulary_size);
  texts.graphs = record_generation(&run->session, *run->opened.model, run->opened.fields, bounds, texts.options,
                                   settings.model.precision, settings.model.freeze);
  texts.decoder = load_token_decoder(settings.model.tokenizer_name.resolved);
  texts.generator = std::make_unique<Generator>(texts.graphs, texts.options, bounds.samples());
  if (settings.training.generate_ema && run->graphs.trains())
    texts.averaged = std::make_unique<Generator>(texts.graphs, texts.options, bounds.samples());
  texts.rows =
      std::make_unique<GeneratedRows>(bounds.samples(), std::max<std::int64_t>(1, texts.options.max_length - 1));
  shape->decoder = texts.decoder.get();
  shape->pad_id = texts.options.pad_id;
  for (const RecordedSplit& split : run->data.splits) {
    for (std::int64_t row = 0; split.split != Split::kTrain && row < split.manifest->rows(); ++row) {
      if (split.manifest->is_taken_out(row)) continue;
      const std::string_view reference = split.manifest->row(row).second_text.value_or("");
      shape->longest_reference_bytes = std::max(shape->longest_reference_bytes, reference.size());
    }
  }
  shape->outputs.push_back({"generated", texts.rows->most_ids(), nullptr});
  shape->outputs.push_back({"generated_counts", 1, nullptr});
  shape->outputs.push_back({"generated_scores", 1, nullptr});
}

void record_evaluation(RecordedRun* run, const FamilyHead& head) {
  JudgeShape shape;
  const BatchCounts bounds = evaluated_bounds(run->data, &shape.max_rows);
  if (bounds.samples() == 0) return;
  const RecordedSplit* const test = run->data.find(Split::kTest);
  run->graphs.predicts = test != nullptr && run->opened.judge_kind->predicts;
  RecordOptions options = options_of(run->settings, Use::kEvaluate, head);
  options.predictions = run->graphs.predicts;
  Graph& graph = add_graph(run, Use::kEvaluate, bounds, options);
  if (run->settings.model.precision == Precision::kBf16) choose_element_types(graph);
  const Recording& recording = run->graphs[Use::kEvaluate].recording;
  shape.batch = run->settings.training.per_device_eval_batch_size;
  for (const LossTerm& term : recording.losses) shape.losses.push_back({term.name, term.stream});
  if (run->graphs.predicts) {
    const StreamPlan& plan = run->data.plan.streams[test->stream];
    const int counted = shape.losses.front().stream;
    shape.predicted_rows = test->manifest->rows();
    shape.longest_text = run->data.loader.texts[0].max_length;
    shape.counted_of_a_row = std::max(plan.bounds[counted] / plan.bounds.samples(), plan.texts[0].most_masked);
  }
  shape.fields = run->opened.fields;
  shape.classes = run->opened.inputs.class_names;
  shape.outputs = judged_outputs(recording, graph, nullptr);
  record_texts(run, bounds, &shape);
  run->graphs.judge = run->opened.judge_kind->make(shape);
  run->pace.evaluation_records = planned_evaluations(run->settings.training, run->pace.length);
}

}  // namespace

std::vector<JudgedOutput> judged_outputs(const Recording& recording, const Graph& graph, const Tape* tape) {
  std::vector<JudgedOutput> outputs;
  const auto add = [&](const std::string& name, Tensor tensor) {
    const TensorInfo& info = graph[tensor];
    const void* address = nullptr;
    if (tape != nullptr && info.dtype == DType::kInt32) address = tape->at_int32(tensor);
    if (tape != nullptr && info.dtype == DType::kFloat32) address = tape->at(tensor);
    outputs.push_back({name, info.cols, address});
  };
  for (const LossTerm& term : recording.losses) add(term.name, term.loss);
  for (const NamedTensor& output : recording.outputs) add(output.name, output.tensor);
  return outputs;
}

void record_graphs(RecordedRun* run) {
  const FamilyHead& head = *run->opened.family->head(run->settings.model.head);
  if (const RecordedSplit* train = run->data.find(Split::kTrain)) record_training(run, *train, head);
  record_evaluation(run, head);
}

}  // namespace bascule
