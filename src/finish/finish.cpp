// SPDX-License-Identifier: Apache-2.0
#include "src/finish/finish.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "src/base/error.h"
#include "src/base/readable.h"
#include "src/bringup/machine_limits.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/files/durable_write.h"
#include "src/judge/examples.h"
#include "src/machine/process_limits.h"
#include "src/pictures/picture_decoder.h"
#include "src/plan/memory_plan.h"
#include "src/record/record_graphs.h"
#include "src/record/run_inputs.h"

namespace bascule {
namespace {

void add_training(Report* report, SealedRun& sealed) {
  const RecordedRun& run = sealed.run();
  const TrainingTimes& times = sealed.loop().times();
  const TrainingPosition& position = sealed.loop().position();
  const TrainingSettings& training = run.settings.training;
  report->global_step = position.global_step;
  report->max_steps = run.pace.length.total_updates;
  report->num_train_epochs = run.pace.length.epochs;
  report->epoch = run.pace.length.epoch_of(position.global_step);
  report->logging_steps = training.logging_steps;
  report->eval_steps = training.eval_steps;
  report->save_steps = training.save_steps;
  report->train_batch_size = training.per_device_train_batch_size;
  TrainSummary& train = report->train;
  train.done = run.graphs.trains();
  if (!train.done) return;
  train.train_loss = mean_loss(position.loss_sum, position.global_step - position.without_loss);
  train.seconds = times.wall_seconds;
  if (times.counted_seconds > 0.0) {
    train.samples_per_second = static_cast<double>(times.counted_samples) / times.counted_seconds;
    train.steps_per_second = static_cast<double>(times.counted_steps) / times.counted_seconds;
  }
  train.counts_warmup = times.updates > 0 && times.counted_steps == times.updates;
  train.evaluation_seconds = times.evaluation_seconds;
  train.save_seconds = times.save_seconds;
  train.totals = times.totals;
  const RunTotals totals = sealed.loop().totals();
  WholeRun& whole = train.whole;
  whole.processes = static_cast<std::int64_t>(totals.processes);
  whole.steps = static_cast<std::int64_t>(totals.updates);
  whole.seconds = totals.seconds;
  // Where every process was no longer than its warm-up, the last one's figures are all there are.
  const bool counted = totals.counted_seconds > 0.0;
  whole.samples_per_second = counted ? totals.counted_samples / totals.counted_seconds : train.samples_per_second;
  whole.steps_per_second = counted ? totals.counted_updates / totals.counted_seconds : train.steps_per_second;
}

void add_best(Report* report, SealedRun& sealed) {
  const RecordedRun& run = sealed.run();
  const TrainingControl& control = sealed.loop().control();
  const BestSoFar& best = control.best();
  BestSummary& summary = report->best;
  if (run.graphs.trains() && control.settings().total_updates < report->max_steps) {
    summary.stopped_early = "`bascule stop` asked for it";
    summary.schedule_steps = run.pace.schedule.total_steps;
  }
  if (!run.graphs.trains() || !run.pace.best_figure) return;
  summary.figure = run.pace.best_figure->name();
  if (control.stops_early() && report->global_step < report->max_steps) {
    char threshold[48] = "";
    if (control.settings().threshold > 0.0)
      std::snprintf(threshold, sizeof threshold, " by more than %g", control.settings().threshold);
    summary.stopped_early = summary.figure + " did not improve" + threshold + " in " + std::to_string(best.not_better) +
                            (best.not_better == 1 ? " evaluation" : " evaluations in a row");
  }
  if (best.step < 0) return;
  summary.is_known = true;
  summary.value = best.figure;
  summary.step = best.step;
  summary.weights_of = sealed.loop().weights_step();
  if (best.checkpoint >= 0) summary.checkpoint = report->output_dir + "/checkpoint-" + std::to_string(best.checkpoint);
  FactTable table{"Best evaluation", "", {}};
  if (!summary.stopped_early.empty()) table.note = "Training stopped early: " + summary.stopped_early + ".";
  table.rows = {{summary.figure, readable_number(summary.value)},
                {"step", readable_count(summary.step)},
                {"weights in this folder", std::string("from step ") + readable_count(summary.weights_of)}};
  report->facts.push_back(std::move(table));
}

void add_wire(Report* report, SealedRun& sealed, const SealedFigures& figures) {
  const RecordedRun& run = sealed.run();
  report->wire.is_there = run.graphs.trains() && run.place.nodes > 1;
  if (!report->wire.is_there) return;
  const bool is_bf16 = run.settings.distributed.wire_type == WireType::kBf16;
  const std::size_t element = is_bf16 ? sizeof(std::uint16_t) : sizeof(float);
  report->wire.updates = sealed.loop().times().updates;
  report->wire.gradient_bytes = static_cast<std::uint64_t>(run.session.layout().trained_elements) * element;
  report->wire.sent_bytes = figures.sent_bytes;
  report->wire.received_bytes = figures.received_bytes;
  report->wire.wait_seconds = sealed.loop().times().wire_seconds;
}

// The model's operations, without those that recomputation repeats: the figure does not depend on the memory that the
// run had. The sum over all processes and ranks: counted on rank 0 for its mean micro-batch; the others do their parts
// of the same samples.
double flops_of_run(SealedRun& sealed) {
  const RecordedRun& run = sealed.run();
  const RunTotals totals = sealed.loop().totals();
  BatchCounts mean;
  for (int i = 0; i < kMaxStreams; ++i) mean[i] = static_cast<std::int64_t>(totals.rows[i] / totals.micro_batches);
  double flops = 0.0;
  for (const NodeTime& node : training_nodes(run, mean, 1.0)) {
    if (!node.again) flops += node.flops * totals.micro_batches;
  }
  return flops * totals.samples / std::max(1.0, totals.rows[kSamples]);
}

void add_operations(Report* report, SealedRun& sealed) {
  const RecordedRun& run = sealed.run();
  const TrainingTimes& times = sealed.loop().times();
  const std::int64_t count = times.micro_batches;
  if (!run.graphs.trains()) return;
  if (sealed.loop().totals().micro_batches > 0.0) report->train.total_flos = flops_of_run(sealed);
  if (count == 0) return;
  const double replays = static_cast<double>(count);
  BatchCounts mean;
  for (int i = 0; i < kMaxStreams; ++i) mean[i] = times.rows[i] / count;
  const double pieces = std::max(1.0, static_cast<double>(times.pieces) / replays);
  const std::vector<NodeTime> nodes = training_nodes(run, mean, pieces);
  report->operations = times_by_kind(nodes, replays, nullptr);
  if (!run.settings.report.profile) return;
  for (const NodeTime& node : nodes)
    report->trace.push_back({node.scope, node.kind, node.seconds / replays,
                             node.seconds > 0.0 ? node.flops * replays * 1e-9 / node.seconds : 0.0});
}

void add_memory(Report* report, const RecordedRun& run, const SealedFigures& figures) {
  report->memory = planned_memory(run.plan);
  report->planned_bytes = run.plan.peak_bytes();
  report->lower_bound_bytes = run.plan.lower_bound_bytes();
  report->resident_bytes = figures.resident_bytes;
  const std::size_t limit = read_process_limits().memory_bytes;
  if (limit != kUnlimitedBytes) report->machine_bytes = limit;  // else the system did not say: no /proc, for one
  if (run.recomputation.layers > 0) report->recomputation = run.recomputation.text();
  if (run.graphs.trains() && run.settings.report.html)
    report->arena_svg = draw_arena(run.session.graph(run.graphs[Use::kTrain].number),
                                   run.session.workspace(run.graphs[Use::kTrain].number), false);
}

void add_contracts(Report* report, SealedRun& sealed, const SealedFigures& sealed_figures) {
  const TrainingTimes& times = sealed.loop().times();
  ContractFigures figures;
  static_cast<SealedFigures&>(figures) = sealed_figures;
  figures.planned_bytes = report->planned_bytes;
  figures.products = sealed.run().settings.machine.products;
  figures.checkpoints = times.checkpoints;
  figures.newest_is_in_place =
      has_checkpoint(sealed.run().settings.run.output_dir.resolved, sealed.loop().position().global_step);
  figures.splits = report->rows;
  figures.recorded_samples = times.totals.samples;
  figures.trained_samples = times.samples;
  figures.updates = times.updates;
  figures.counted_updates = times.counted_steps;
  figures.counted_samples = times.counted_samples;
  report->contracts = judge_contracts(figures);
  if (!sealed_figures.foreign_allocations.empty()) {
    report->facts.push_back({"Allocations by libraries after the seal",
                             "In this process; Bascule's own code made none.", sealed_figures.foreign_allocations});
  }
}

void add_device(Report* report, const media_engine_statistics& media) {
  const media_engine_capabilities engine = media_engine_query(media_engine_builtin());
  if (engine.works_in_poll != 0) return;
  DeviceReport& device = report->device;
  device.is_there = true;
  device.engine = engine.name;
  device.resets = media.device_resets;
  device.retries = media.retries;
  device.fell_back = media.fallbacks > 0;
  device.fallback_jobs = media.fallback_jobs;
  FactTable table{"Media engine", device.fell_back ? "The device failed; the host engine took over." : "", {}};
  table.rows = {
      {"engine", engine.name},
      {"pictures", readable_count(static_cast<std::int64_t>(media.completed))},
      {"device resets", std::to_string(media.device_resets)},
      {"resubmitted pictures", readable_count(static_cast<std::int64_t>(media.retries))},
      {"pictures sent directly to the host engine", readable_count(static_cast<std::int64_t>(media.fallback_jobs))}};
  for (std::uint32_t fault = 0; fault < MEDIA_ENGINE_FAULTS; ++fault) {
    if (media.faults[fault] == 0) continue;
    device.faults.push_back({media_engine_fault_name(fault), media.faults[fault]});
    table.rows.push_back(
        {std::string("fault: ") + media_engine_fault_name(fault), std::to_string(media.faults[fault])});
  }
  report->facts.push_back(std::move(table));
}

void add_loader(Report* report, SealedRun& sealed) {
  const LoaderStatistics statistics = sealed.loader().statistics();
  if (const RecordedSplit* train = sealed.run().data.find(Split::kTrain)) {
    const StreamStatistics stream = sealed.loader().stream(train->stream).statistics();
    // It could deliver what it did deliver, also where it got ahead while the run was saving or evaluating.
    report->loader = {std::max(sealed.loop().times().could_deliver, report->train.samples_per_second),
                      stream.step_wait_seconds,
                      statistics.worker_wait_seconds,
                      stream.mean_occupancy,
                      sealed.run().data.plan.streams[train->stream].slots,
                      stream.bad_samples};
  }
  FactTable table{"Loader", "", {}};
  table.rows.push_back(
      {"workers waited for training", formatted("%.3f s, sum over all workers", statistics.worker_wait_seconds)});
  for (const RecordedSplit& split : sealed.run().data.splits) {
    const StreamStatistics stream = sealed.loader().stream(split.stream).statistics();
    if (stream.samples == 0) continue;
    const double could = split.split == Split::kTrain ? report->loader.could_deliver_samples_per_second
                                                      : deliverable_samples_per_second({}, stream);
    table.rows.push_back({split_name(split.split),
                          formatted("%s %s, %s; training waited %.3f s; %.2f slots ready",
                                    readable_count(stream.samples).c_str(), noun_for(stream.samples, "sample").c_str(),
                                    can_deliver(could).c_str(), stream.step_wait_seconds, stream.mean_occupancy)});
  }
  report->facts.push_back(std::move(table));
  add_device(report, statistics.media);
}

void add_card(Report* report, const ModelCardWords& card) {
  report->model_kind = card.kind;
  report->tags.assign(card.tags.begin(), card.tags.end());
  report->pipeline_tag = card.pipeline_tag;
  report->processor = card.processor;
  report->preparation_note = card.preparation_note;
  report->library = card.library;
}

void add_history(Report* report, const std::vector<HistoryEntry>& history) {
  if (history.empty()) return;
  FactTable table{
      "Changes during the run", "Settings and files that changed when the run resumed from a checkpoint.", {}};
  for (const HistoryEntry& one : history) {
    table.rows.push_back({"after update " + std::to_string(one.step) + ", " + one.time,
                          one.key + ": " + one.from + " \u2192 " + one.to});
  }
  report->facts.push_back(std::move(table));
}

void add_settings(Report* report, const Settings& settings) {
  report->settings = number_keys(settings);
  if (settings.machine.products == Products::kOnednn)  // which number_keys() leaves out, as older programs did
    report->settings.push_back({"machine.products", "\"onednn\""});
  report->all_settings = printed_keys(settings);
  report->settings_file = settings.origin.file;
  report->model_name = settings.model.model_name_or_path.written;
  report->dataset = settings.data.train_file.text();
  report->validation_dataset = settings.data.evaluation_file().text();
  if (settings.data.validation_share > 0.0) report->validation_dataset = "rows held out of " + report->dataset;
  report->test_dataset = settings.data.prediction_file().text();
}

// The files that an earlier run's judge has left in the folder: where this run writes none of that name, they would
// pass for its own.
class EarlierFiles {
 public:
  explicit EarlierFiles(const std::string& folder) {
    for (const char* const name : {"embeddings.safetensors", kPredictionsFile, kGeneratedTextsFile}) {
      struct stat file = {};
      const std::string path = folder + "/" + name;
      if (::lstat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode)) files_.push_back({path, file.st_ino});
    }
  }
  // A file is written beside the one that it replaces, so it is another one.
  void remove_unless_replaced() const {
    for (const auto& [path, number] : files_) {
      struct stat file = {};
      if (::lstat(path.c_str(), &file) != 0 || file.st_ino != number || ::unlink(path.c_str()) == 0) continue;
      throw Error(ErrorKind::kDisk, path, std::string("cannot be removed: ") + std::strerror(errno),
                  advice_for_disk(errno));
    }
  }

 private:
  std::vector<std::pair<std::string, ino_t>> files_;
};

}  // namespace

Report make_report(SealedRun& sealed, const SealedFigures& figures, const std::vector<SkippedSamples>& skipped) {
  const RecordedRun& run = sealed.run();
  Report report;
  report.output_dir = run.settings.run.output_dir.resolved;
  report.title = std::filesystem::path(report.output_dir).filename().string();
  report.architecture = run.opened.model->architecture();
  report.head = run.settings.model.head;
  add_card(&report, run.opened.model->card());
  if (const ModelCode code = run.opened.model->code(); code.file != nullptr) report.auto_class = code.auto_class;
  report.finished_at = utc_now("%Y-%m-%d %H:%M UTC");
  const ParameterCount parameters = count_parameters(run.session.parameters());
  report.parameters = parameters.all;
  report.trained_parameters = parameters.trained;
  add_settings(&report, run.settings);
  add_training(&report, sealed);
  add_best(&report, sealed);
  add_wire(&report, sealed, figures);
  const Span<const StepRecord> steps = sealed.outputs().steps.records();
  report.steps.assign(steps.begin(), steps.end());
  report.metrics = run.opened.judge_kind->metrics;
  const bool is_of_texts = std::any_of(report.metrics.begin(), report.metrics.end(),
                                       [](const Metric& metric) { return metric.is_of_generated; });
  if (!is_of_texts || run.graphs.texts) report.metrics_note = run.opened.judge_kind->note;
  set_evaluations(&report, sealed.outputs().evaluations.records(), sealed.loop().final_evaluations());
  report.averaged_evaluations = sealed.loop().averaged_evaluations();
  const Span<const EvaluationRecord> averaged = sealed.outputs().averaged_evaluations.records();
  std::copy_if(averaged.begin(), averaged.end(), std::back_inserter(report.averaged_curve),
               [](const EvaluationRecord& record) { return !std::isnan(record.loss); });
  add_operations(&report, sealed);
  add_memory(&report, run, figures);
  add_loader(&report, sealed);
  add_history(&report, run.resume.history);
  add_bad_samples(&report, skipped);
  add_contracts(&report, sealed, figures);
  report.provenance = provenance_of(run, sealed.isa());
  if (report.best.is_known) report.provenance.push_back({"weights of step", std::to_string(report.best.weights_of)});
  return report;
}

void write_judged(SealedRun& sealed, Report* report) {
  const EarlierFiles earlier(report->output_dir);
  if (const RecordedSplit* const split = sealed.run().data.last_judged()) {
    const RecordedRun& run = sealed.run();
    const bool has_page = run.settings.report.html;
    run.graphs.judge->write_files({report->output_dir, split->split, *split->manifest, sealed.token_texts(),
                                   run.opened.inputs.class_names, has_page},
                                  report);
    if (has_page && !report->map.captions.empty()) {
      ThumbnailMaker maker;
      add_thumbnails(&report->map, [&](const std::string& path) { return maker.make(path); });
    }
  }
  earlier.remove_unless_replaced();
}

void write_run_folder(SealedRun& sealed, const Report& report) {
  const std::string& folder = report.output_dir;
  if (const HfFolderPlan* const model = sealed.final_model())
    throw_if_failed(model->write_durably_into(folder.c_str()), folder, "writing the model");
  if (const HfFolderPlan* const averaged = sealed.averaged_model()) {
    const std::string of_average = folder + "/" + kAveragedFolder;
    make_folders(of_average);
    throw_if_failed(averaged->write_durably_into(of_average.c_str()), of_average, "writing the averaged model");
  }
  write_result_files(report);
  if (sealed.final_model() != nullptr) write_output_file(folder + "/README.md", model_card(report));
  if (sealed.run().settings.report.html) write_output_file(folder + "/report.html", report_html(report));
}

}  // namespace bascule
