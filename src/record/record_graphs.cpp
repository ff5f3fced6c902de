// SPDX-License-Identifier: Apache-2.0
// Records the graphs of a run and makes the judge of its evaluations; then checks [[training.groups]]: tensors that
// train at another rate, with another decay, or not at all. Before the seal.
#include "src/record/record_graphs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/generate/generation_config.h"
#include "src/graph/backward.h"
#include "src/graph/element_types.h"
#include "src/graph/parameters.h"
#include "src/index/relevance.h"
#include "src/settings/settings.h"
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
  const OpenedModel& opened = run->opened;
  Graph& graph =
      run->session.add_graph(bounds, options.texts_in_a_row == 1 ? opened.fields_of_one_text : opened.fields);
  recorded.recording = run->opened.model->record(graph, use, options);
  return graph;
}

[[noreturn]] void refuse(const TrainingSettings& training, const SettingsOrigin& origin, std::size_t group,
                         const std::string& problem, const std::string& what_to_do) {
  throw Error(ErrorKind::kSettings, where_written(origin, group_name(group)),
              "training.groups: \"" + training.groups[group].match + "\" " + problem, what_to_do);
}

void check_has_tensors(const TrainingSettings& training, const SettingsOrigin& origin, const ParameterSet& parameters,
                       std::size_t group) {
  bool matches_any = false;
  for (int p = 0; p < parameters.size(); ++p) {
    for (const ParameterPiece& piece : parameters[p].pieces) {
      if (piece.group == static_cast<int>(group)) return;
      matches_any = matches_any || parameters.matches(group, piece.name);
    }
  }
  if (matches_any)
    refuse(training, origin, group, "matches only tensors of earlier groups", "remove it, or move it before them");
  const std::string first = parameters[0].pieces.front().name;
  refuse(training, origin, group, "matches no tensor that this head uses",
         "write a pattern of tensor names, such as \"" + first + "\", in which * stands for any characters");
}

// Query, key and value weights are one matrix here, which has a gradient or has none.
void check_freezes_whole_matrices(const TrainingSettings& training, const SettingsOrigin& origin,
                                  const ParameterSet& parameters) {
  const auto is_frozen = [&](const ParameterPiece& piece) {
    return piece.group >= 0 && parameters.groups()[static_cast<std::size_t>(piece.group)].freeze;
  };
  for (int p = 0; p < parameters.size(); ++p) {
    if (!parameters[p].trained) continue;
    const ParameterPiece *frozen = nullptr, *trained = nullptr;
    for (const ParameterPiece& piece : parameters[p].pieces) (is_frozen(piece) ? frozen : trained) = &piece;
    if (frozen == nullptr) continue;
    refuse(training, origin, static_cast<std::size_t>(frozen->group),
           "freezes " + frozen->name + " but not " + trained->name + ", which belongs to the same matrix product",
           "freeze both or neither; learning_rate_multiplier may differ");
  }
}

// After recording. Throws Error (kSettings) for a group without effect (its pattern matches no tensor of the model, or
// earlier groups have them all), for one that freezes a part of a matrix, and where nothing is left to train.
void check_parameter_groups(const TrainingSettings& training, const SettingsOrigin& origin,
                            const ParameterSet& parameters) {
  if (training.groups.empty()) return;
  for (std::size_t group = 0; group < training.groups.size(); ++group)
    check_has_tensors(training, origin, parameters, group);
  check_freezes_whole_matrices(training, origin, parameters);
  for (int p = 0; p < parameters.size(); ++p) {
    if (parameters[p].trained) return;
  }
  throw Error(ErrorKind::kSettings, where_written(origin, "training.groups"),
              "training.groups and model.freeze leave nothing to train",
              "freeze less, or set training.do_train = false");
}

void record_training(RecordedRun* run, const RecordedSplit& train, const FamilyHead& head) {
  std::vector<ParameterGroup> groups;
  for (const GroupSettings& group : run->settings.training.groups) groups.push_back({group.match, group.freeze});
  run->session.set_groups(std::move(groups), run->opened.model->body_prefix());
  BatchCounts bounds = run->data.plan.streams[train.stream].bounds;
  bounds[kSamplesOfAllRanks] = run->pace.length.gathered_samples;
  const RecordOptions options = options_of(run->settings, Use::kTrain, head);
  const bool in_bf16 = run->settings.model.precision == Precision::kBf16;
  if (const std::int64_t samples = run->settings.training.mini_batch_size; samples > 0) {
    run->graphs.by_use =
        record_pieces(&run->session, *run->opened.model, run->opened.fields, bounds, samples, options, in_bf16);
  } else {
    Graph& graph = add_graph(run, Use::kTrain, bounds, options);
    derive_backward(graph);
    if (in_bf16) choose_element_types(graph);
  }
  BASCULE_CHECK(static_cast<int>(run->graphs.of_loss().recording.losses.size()) == head.loss_terms);
  check_parameter_groups(run->settings.training, run->settings.origin, run->session.parameters());
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
  if (judges_retrieval_files(run->settings.data, run->settings.training)) options.texts_in_a_row = 1;
  Graph& graph = add_graph(run, Use::kEvaluate, bounds, options);
  if (run->settings.model.precision == Precision::kBf16) choose_element_types(graph);
  const Recording& recording = run->graphs[Use::kEvaluate].recording;
  shape.batch = run->settings.training.per_device_eval_batch_size;
  for (const LossTerm& term : recording.losses) shape.losses.push_back({term.name, term.stream});
  if (run->graphs.predicts) {
    const StreamPlan& plan = run->data.plan.streams[test->stream];
    const int counted = shape.losses.empty() ? kSamples : shape.losses.front().stream;
    shape.predicted_rows = test->manifest->rows();
    shape.longest_text = run->data.loader.texts[0].max_length;
    shape.counted_of_a_row = std::max(plan.bounds[counted] / plan.bounds.samples(), plan.texts[0].most_masked);
  }
  for (const RecordedSplit& split : run->data.splits) {
    const Relevance* const relevance = split.manifest->relevance();
    if (relevance == nullptr) continue;
    shape.documents = std::max(shape.documents, relevance->documents);
    shape.queries = std::max(shape.queries, relevance->queries);
  }
  shape.compares_by_dot = run->opened.sentence && run->opened.sentence->similarity == Similarity::kDot;
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

std::vector<ReplayedGraph> replayed_graphs(const RecordedRun& run, const BatchCounts& batch, double pieces) {
  const RecordedGraphs& graphs = run.graphs;
  if (!graphs.has_pieces()) return {{graphs[Use::kTrain].number, batch, 1.0, false}};
  BatchCounts piece = batch;
  for (std::int64_t& rows : piece.rows)
    rows = static_cast<std::int64_t>(std::llround(static_cast<double>(rows) / pieces));
  return {{graphs[Use::kEmbedText].number, piece, pieces, true},
          {graphs[Use::kTrainLoss].number, batch, 1.0, false},
          {graphs[Use::kTrain].number, piece, pieces, false}};
}

std::int64_t pieces_of(const RecordedRun& run, std::int64_t samples) {
  if (!run.graphs.has_pieces()) return 1;
  return divide_up(samples, run.session.graph(run.graphs[Use::kTrain].number).bounds().samples());
}

double flops_of_batch(const RecordedRun& run) {
  const BatchCounts& bounds = run.session.graph(run.graphs.of_loss().number).bounds();
  double flops = 0.0;
  for (const ReplayedGraph& graph : replayed_graphs(run, bounds, static_cast<double>(pieces_of(run, bounds.samples()))))
    flops += graph.replays * flops_of(run.session.graph(graph.number));
  return flops;
}

void count_pieces(const RecordedRun& run, Recomputation* recomputation) {
  const BatchCounts& bounds = run.session.graph(run.graphs.of_loss().number).bounds();
  const double pieces = static_cast<double>(pieces_of(run, bounds.samples()));
  recomputation->flops *= pieces;
  recomputation->least_flops *= pieces;
  recomputation->step_flops = flops_of_batch(run) - recomputation->flops;
}

// Operations grow with rows, so those of a batch are those of its pieces, whatever sizes these have. What is read once
// a replay, such as weights, does not.
std::vector<NodeTime> training_nodes(const RecordedRun& run, const BatchCounts& batch, double pieces) {
  std::vector<NodeTime> all;
  for (const ReplayedGraph& graph : replayed_graphs(run, batch, pieces)) {
    const Tape& tape = run.session.tape(graph.number);
    const std::vector<NodeTime> of_replay = tape.node_times(graph.counts);
    std::vector<NodeTime> nodes = tape.node_times(batch);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      nodes[n].again = nodes[n].again || graph.again;
      nodes[n].bytes = of_replay[n].bytes * graph.replays;
      nodes[n].replays = graph.replays;
    }
    all.insert(all.end(), nodes.begin(), nodes.end());
  }
  return all;
}

}  // namespace bascule
