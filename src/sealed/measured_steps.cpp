// SPDX-License-Identifier: Apache-2.0
#include "src/sealed/measured_steps.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/runtime/guard.h"
#include "src/train/loop.h"

namespace bascule {
namespace {

Status run_steps(TrainingLoop& loop, const Stream& stream, std::int64_t warmup, double* seconds, std::int64_t* samples,
                 MeasuredSteps* steps) noexcept {
  loop.begin();
  for (std::int64_t i = 0; i < warmup; ++i) BASCULE_TRY(loop.step());
  const StreamStatistics loaded_before = stream.statistics();
  double before[kStepPhases];
  std::copy_n(loop.interval().seconds, kStepPhases, before);
  for (std::size_t i = 0; i < steps->seconds.size(); ++i) {
    const std::int64_t samples_before = loop.times().rows.samples();
    const double began = monotonic_seconds();
    BASCULE_TRY(loop.step());
    seconds[i] = monotonic_seconds() - began;
    samples[i] = loop.times().rows.samples() - samples_before;
  }
  for (int phase = 0; phase < kStepPhases; ++phase) {
    steps->phases[phase] = loop.interval().seconds[phase] - before[phase];
  }
  steps->could_deliver = deliverable_samples_per_second(loaded_before, stream.statistics());
  steps->resident_bytes = resident_bytes();
  return ok_status();
}

}  // namespace

MeasuredSteps measure_steps(RecordedRun& run, Isa isa, std::int64_t warmup, std::int64_t count) {
  const Settings& settings = run.settings;
  own_indexes(run.data);
  Arena arena(run.plan, settings.machine.huge_pages);
  Loader loader(run.data.loader, run.data.plan,
                Span<std::byte>(arena.at(run.plan[kLoaderMemory]), run.plan[kLoaderMemory].bytes));
  Threads threads(run.threads, run.threads == usable_cores());
  run.session.seal(arena, run.plan, kernels_for(isa), run.threads);
  StartWork work;
  work.touch(arena.memory(), arena.huge_pages(), false);
  initialise_parameters(&work, run.session.parameter_memory(), static_cast<std::uint64_t>(settings.run.seed));
  work.run(threads);
  if (settings.machine.lock_memory) arena.lock();

  TrainingOutputs outputs;
  const volatile int never = 0;
  Group alone(RankPlace{}, GroupOptions{});
  TrainingLoop loop(run, {run.session, alone, loader, threads, nullptr, nullptr, &never}, {}, &outputs, {});
  MeasuredSteps steps;
  steps.seconds.resize(static_cast<std::size_t>(count));
  steps.samples.resize(static_cast<std::size_t>(count));
  seal_memory();
  const Status status = run_steps(loop, loader.stream(run.data.find(Split::kTrain)->stream), warmup,
                                  steps.seconds.data(), steps.samples.data(), &steps);
  open_memory();
  if (!status.ok()) {
    const bool diverged = status.code == StatusCode::kNotFinite;
    throw Error(ErrorKind::kData, "",
                diverged ? "loss or gradient is not finite" : describe(status, *run.data.find(Split::kTrain)->manifest),
                diverged ? "try a lower training.learning_rate" : "");
  }
  const TrainingTimes& times = loop.times();
  steps.micro_batches = times.micro_batches;
  for (int i = 0; i < kMaxStreams; ++i) steps.rows[i] = times.rows[i] / times.micro_batches;
  steps.nodes = run.session.tape(run.graphs[Use::kTrain].number).node_times(steps.rows);
  steps.stream = loader.stream(run.data.find(Split::kTrain)->stream).statistics();
  return steps;
}

}  // namespace bascule
