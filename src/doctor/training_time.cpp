// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/doctor.h"

#include <algorithm>
#include <cmath>

#include "src/loader/loader_parts.h"
#include "src/record/check_fits.h"
#include "src/record/record_graphs.h"
#include "src/update/optimizer.h"

namespace bascule {
namespace {

// The greatest median of the profile's figures whose name begins so, of all cores together.
double best_of(const BringUp& profile, const std::string& item, const std::string& name) {
  double best = 0.0;
  for (const Figure& figure : profile.figures) {
    if (figure.item == item && figure.name.rfind(name, 0) == 0 && figure.place == "all cores")
      best = std::max(best, figure.median());
  }
  return best;
}

// The memory of the machine, or of the control group that the profile was made in.
std::size_t memory_of_profile(const Machine& machine, std::size_t unknown) {
  std::size_t bytes = machine.memory.bytes ? static_cast<std::size_t>(*machine.memory.bytes) : unknown;
  for (const GroupFacts& group : machine.groups) {
    if (group.memory_bytes && *group.memory_bytes > 0)
      bytes = std::min(bytes, static_cast<std::size_t>(*group.memory_bytes));
  }
  return bytes;
}

// The rows that a sample has of the stream of such a field; below 0: the field does not say.
double rows_of_sample(const RunData& data, const Field& field, const MeanSample& sample) {
  const LoaderSettings& loader = data.loader;
  const StreamSettings& stream = loader.streams[data.find(Split::kTrain)->stream];
  const TextSettings text = text_settings(loader, field.text, stream).front();
  const double tokens = sample.tokens[field.text];
  const auto masked = [&] {
    const std::int64_t whole = std::llround(tokens);
    const std::int64_t candidates = std::max<std::int64_t>(0, whole - special_tokens(text, *stream.manifest));
    if (text.masking.rule == Masking::kBernoulli) return text.masking.probability * static_cast<double>(candidates);
    return static_cast<double>(counted_selection(whole, candidates, text.masking));
  };
  switch (field.source) {
    case FieldSource::kTokenIds:
    case FieldSource::kDecoderIds:
    case FieldSource::kLabelledRows:
    case FieldSource::kTokenLabels: return tokens;
    case FieldSource::kMaskedRows:
    case FieldSource::kMaskedLabels: return masked();
    case FieldSource::kReadRows: return 1.0 + masked();
    default: return -1.0;
  }
}

// Rows of a mean batch of the training graph.
BatchCounts mean_batch(const RecordedRun& run, const MeanSample& sample) {
  const BatchCounts bounds = run.session.graph(run.graphs.of_loss().number).bounds();
  const double samples = std::min(
      static_cast<double>(bounds.samples()),
      static_cast<double>(run.pace.length.samples_per_epoch) /
          (static_cast<double>(run.pace.length.batches_per_epoch) * static_cast<double>(run.place.world_size)));
  BatchCounts counts = bounds;
  counts[kSamples] = std::max<std::int64_t>(1, std::llround(samples));
  for (const Field& field : run.opened.fields) {
    if (field.rows.stream < kFirstModelStream) continue;
    const double rows = rows_of_sample(run.data, field, sample);
    if (rows >= 0.0)
      counts[field.rows.stream] =
          std::min(bounds[field.rows.stream], static_cast<std::int64_t>(std::ceil(rows * samples)));
  }
  return counts;
}

double seconds_of_batch(const RecordedRun& run, const MeanSample& sample, const MachineLimits& limits) {
  const BatchCounts counts = mean_batch(run, sample);
  double seconds = 0.0;
  for (const ReplayedGraph& replayed :
       replayed_graphs(run, counts, static_cast<double>(pieces_of(run, counts.samples())))) {
    const Graph& graph = run.session.graph(replayed.number);
    for (const Node& node : graph.nodes()) {
      const Cost cost = cost_of(graph, node, replayed.counts);
      seconds += replayed.replays * seconds_at_limits(cost.flops, cost.bytes, node.bf16_products, limits);
    }
  }
  return seconds / kReached;
}

void add_time(const RecordedRun& run, const MeanSample& sample, const BringUp& profile, const std::string& path,
              TimeFigures* time) {
  const Settings& settings = run.settings;
  const bool in_bf16 = settings.model.precision == Precision::kBf16;
  MachineLimits limits = limits_of_profile(profile, in_bf16, path);
  const double cores = static_cast<double>(std::max<std::int64_t>(1, profile.cores));
  const double share = std::min(1.0, settings.machine.threads > 0 ? run.threads / cores : 1.0);
  limits.float32_gflops_per_second *= share;
  limits.bf16_gflops_per_second *= share;
  const double batches = static_cast<double>(run.pace.length.batches_per_epoch);
  const double updates = static_cast<double>(run.pace.length.updates_per_epoch);
  const double batch_seconds =
      settings.machine.step_seconds > 0.0 ? settings.machine.step_seconds : seconds_of_batch(run, sample, limits);
  const double update_seconds = update_bytes_of_parameter(settings.training.optimizer) *
                                static_cast<double>(run.session.layout().trained_elements) * 1e-9 /
                                limits.gigabytes_per_second;
  time->step_seconds = batch_seconds * batches / updates + update_seconds;
  time->loading_seconds = sample.loading_seconds * static_cast<double>(run.pace.length.samples_per_epoch) /
                          (updates * static_cast<double>(run.place.world_size));
  const double workers = static_cast<double>(settings.data.dataloader_num_workers);
  const double together = time->step_seconds + time->loading_seconds / (workers > 0.0 ? cores : 1.0);
  time->epoch_seconds = updates * std::max(together, workers > 0.0 ? time->loading_seconds / workers : 0.0);
}

}  // namespace

MachineLimits limits_of_profile(const BringUp& profile, bool in_bf16, const std::string& path) {
  MachineLimits limits;
  limits.float32_gflops_per_second = best_of(profile, "products", "float32 ");
  limits.bf16_gflops_per_second = in_bf16 ? best_of(profile, "products", "bf16 ") : 0.0;
  limits.gigabytes_per_second = best_of(profile, "memory", "copy");
  const bool lacks_products = in_bf16 ? limits.bf16_gflops_per_second <= 0.0 : limits.float32_gflops_per_second <= 0.0;
  if (lacks_products || limits.gigabytes_per_second <= 0.0) {
    throw Error(ErrorKind::kData, path, "the profile has no figures of matrix products and memory on all cores",
                "make one with `bascule bringup --save FILE`, without --only");
  }
  return limits;
}

ProcessLimits limits_of_machine(const BringUp* profile) {
  ProcessLimits limits = read_process_limits();
  if (profile == nullptr) return limits;
  limits.memory_bytes = memory_of_profile(profile->machine, limits.memory_bytes);
  limits.memory_owner = "the machine of the profile";
  limits.address_bytes = limits.data_bytes = kUnlimitedBytes;
  return limits;
}

TimeFigures time_figures(RecordedRun& run, const MeanSample& sample, const BringUp* profile, const std::string& path,
                         std::optional<Error>* too_large) {
  const ProcessLimits now = limits_of_machine(profile);
  const std::vector<MemoryLimit> limits = limits_of_plan(run.settings.machine, now);
  TimeFigures time;
  time.planned_bytes = static_cast<std::int64_t>(run.plan.peak_bytes());
  time.memory_bytes = static_cast<std::int64_t>(memory_of_plan(run.settings.machine, now));
  try {
    check_fits(run, now, limits);
  } catch (const Error& error) {
    *too_large = error;
  }
  if (!run.graphs.trains()) return time;
  time.batch = run.settings.training.per_device_train_batch_size;
  const LargestBatches all = largest_batches_that_fit(run, run.settings.model.precision, now, limits);
  const GradientCheckpointing choice = run.settings.training.gradient_checkpointing;
  const LargestBatch largest = choice == GradientCheckpointing::kOff         ? all.off
                               : choice == GradientCheckpointing::kSelective ? all.selective
                               : choice == GradientCheckpointing::kFit       ? all.fit
                                                                             : all.full;
  time.largest_batch = largest.samples;
  time.largest_is_all_rows = largest.is_all_rows;
  time.updates_of_epoch = run.pace.length.updates_per_epoch;
  time.epochs = run.pace.length.epochs;
  if (profile != nullptr) add_time(run, sample, *profile, path, &time);
  return time;
}

}  // namespace bascule
