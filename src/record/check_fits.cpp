// SPDX-License-Identifier: Apache-2.0
#include "src/record/check_fits.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/span.h"

namespace bascule {
namespace {

// Addresses that the C library reserves for the heap of each thread that allocates, and libraries for code and tables
// that they make while the run is being sealed.
constexpr std::size_t kHeapBytesOfThread = std::size_t{64} << 20;
constexpr std::size_t kLaterAddressBytes = std::size_t{128} << 20;
constexpr std::size_t kLaterDataBytes = std::size_t{112} << 20;

// Beside the first thread: compute threads, workers, the units of a device, and where there are ranks the watch over
// them and the links between machines.
std::size_t more_threads_of(const RecordedRun& run) {
  const LoaderSettings& loader = run.data.loader;
  const bool has_device = loader.media.driver != nullptr && loader.media.driver != media_engine_host();
  return static_cast<std::size_t>(run.threads - 1 + loader.workers + (has_device ? loader.media.device_units + 1 : 0) +
                                  (run.place.is_alone() ? 0 : 1) + (run.place.nodes > 1 ? 4 : 0));
}

std::size_t needed_bytes(const RecordedRun& run, const ProcessLimits& now, LimitKind kind) {
  const MemoryPlan& plan = run.plan;
  const std::size_t own = plan.arena_bytes + plan.index_bytes;
  switch (kind) {
    case LimitKind::kMemory: return plan.peak_bytes();
    case LimitKind::kAddresses:
      return now.address_bytes_used + own + plan.shared_bytes + kLaterAddressBytes +
             more_threads_of(run) * (now.stack_bytes + kHeapBytesOfThread);
    case LimitKind::kData: return now.data_bytes_used + own + kLaterDataBytes + more_threads_of(run) * now.stack_bytes;
  }
  return 0;
}

// The larger of the batch sizes that the run uses.
std::int64_t largest_batch(const Settings& settings) {
  const TrainingSettings& training = settings.training;
  const bool evaluates = training.do_eval || training.do_predict;
  return std::max(training.do_train ? training.per_device_train_batch_size : 1,
                  evaluates ? training.per_device_eval_batch_size : 1);
}

// The same settings with no batch larger than `batch`.
Settings with_batch(const RecordedRun& run, std::int64_t batch) {
  Settings smaller = run.settings;
  for (std::int64_t* size :
       {&smaller.training.per_device_train_batch_size, &smaller.training.per_device_eval_batch_size}) {
    *size = std::min(*size, batch);
  }
  return smaller;
}

// Where needs are nearly a line between two batches, one that fits and one that does not: the largest that does.
template <typename Fits>
std::int64_t largest_between(std::int64_t fitting, std::int64_t failing, std::int64_t guess, const Fits& fits) {
  std::int64_t step = 1;  // away from the guess, twice as far each time
  while (failing - fitting > 1) {
    guess = std::min(std::max(guess, fitting + 1), failing - 1);
    const bool is_fitting = fits(guess);
    (is_fitting ? fitting : failing) = guess;
    guess += is_fitting ? step : -step;
    if (guess <= fitting || guess >= failing) guess = fitting + (failing - fitting) / 2;
    step *= 2;
  }
  return fitting;
}

std::int64_t guess_between(std::int64_t small, std::size_t small_bytes, std::int64_t large, std::size_t large_bytes,
                           std::size_t limit) {
  if (large_bytes <= small_bytes) return large;
  const double part =
      (static_cast<double>(limit) - static_cast<double>(small_bytes)) / static_cast<double>(large_bytes - small_bytes);
  return small + static_cast<std::int64_t>(static_cast<double>(large - small) * part);
}

std::string size_text(std::size_t bytes) { return readable_bytes(bytes).c_str(); }

// The keys with which a run of these settings would fit, its batches as they are: recomputation, which changes no bit,
// before bf16. "": none.
std::string keys_that_fit(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits,
                          const Settings& settings) {
  const bool may_recompute =
      run.graphs.trains() && settings.training.gradient_checkpointing != GradientCheckpointing::kFit;
  const bool may_round =
      settings.model.precision == Precision::kFloat32 && settings.machine.products != Products::kOnednn;
  for (const auto& [recomputes, rounds] : {std::pair{true, false}, {false, true}, {true, true}}) {
    if ((recomputes && !may_recompute) || (rounds && !may_round)) continue;
    Settings other = settings;
    if (recomputes) other.training.gradient_checkpointing = GradientCheckpointing::kFit;
    if (rounds) other.model.precision = Precision::kBf16;
    if (!fits(RunVariant(run, other).run(), now, limits)) continue;
    return std::string(recomputes ? "training.gradient_checkpointing = \"fit\"" : "") +
           (recomputes && rounds ? " and " : "") + (rounds ? "model.precision = \"bf16\"" : "");
  }
  return "";
}

// The memory of a run with any batch: "weights take 10.6 GiB, gradients 10.6 GiB, exp_avg ...".
std::string model_shares(const RecordedRun& run) {
  std::size_t weights = 0;
  std::string others;
  for (const PlannedRange& range : run.plan.categories) {
    if (range.name.rfind("parameters, ", 0) == 0) weights += range.bytes;
  }
  const auto add = [&](const std::string& name) {
    for (const PlannedRange& range : run.plan.categories) {
      if (range.name == name) others += ", " + name + " " + size_text(range.bytes);
    }
  };
  add("gradients");
  add("gradient ring");
  for (const OptimizerState& state : optimizer_kind(run.settings.training.optimizer).states) add(state.name);
  return "weights take " + size_text(weights) + others;
}

// The same run of `batch` samples with Adafactor, its update fused where that is possible: "" if it does not fit
// either.
std::string advice_for_optimizer(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits,
                                 std::int64_t batch) {
  const TrainingSettings defaults;
  if (!run.graphs.trains() || run.settings.training.fused_update) return "";
  Settings settings = with_batch(run, batch);
  TrainingSettings& training = settings.training;
  const bool fuses = settings.distributed.world_size == 1 && training.gradient_accumulation_steps == 1;
  training.optimizer = Optimizer::kAdafactor;
  training.adam_beta1 = defaults.adam_beta1;
  training.adam_beta2 = defaults.adam_beta2;
  training.adam_epsilon = defaults.adam_epsilon;
  training.gradient_checkpointing = GradientCheckpointing::kFit;
  training.fused_update = fuses;
  if (fuses) training.max_grad_norm = 0.0;
  const RunVariant variant(run, settings);
  if (!fits(variant.run(), now, limits)) return "";
  return std::string(", but training.optimizer = \"adafactor\"") +
         (fuses ? ", fused_update = true, max_grad_norm = 0.0" : "") + " and gradient_checkpointing = \"fit\" need " +
         size_text(variant.run().plan.peak_bytes());
}

// Advises what would fit all limits, of which the run exceeds `limit`: other keys, or a smaller batch.
std::string advice_for(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits,
                       const MemoryLimit& limit, std::size_t needed) {
  const std::string keys = keys_that_fit(run, now, limits, run.settings);
  const auto needed_with = [&](std::int64_t batch) {
    return needed_bytes(RunVariant(run, with_batch(run, batch)).run(), now, limit.kind);
  };
  const auto batch_fits = [&](std::int64_t batch) {
    return fits(RunVariant(run, with_batch(run, batch)).run(), now, limits);
  };
  const std::int64_t largest = largest_batch(run.settings);
  const std::int64_t dealt = run.graphs.trains() ? run.pace.length.cut.dealt : 1;  // a batch is a multiple of it
  const std::size_t least = needed_with(dealt);
  if (!batch_fits(dealt)) {
    std::string text = "no batch size fits: batch size " + std::to_string(dealt) + " needs " + size_text(least) + " (" +
                       model_shares(run) + ")";
    if (!keys.empty()) return text + ", but " + keys + " would fit";
    const std::string of_least = keys_that_fit(run, now, limits, with_batch(run, dealt));
    if (!of_least.empty()) return text + ", but " + of_least + " would fit with this batch size";
    return text + advice_for_optimizer(run, now, limits, dealt);
  }
  std::int64_t fitting =
      largest_between(dealt, largest, guess_between(dealt, least, largest, needed, limit.bytes), batch_fits);
  fitting -= fitting % dealt;
  std::string change;
  const TrainingSettings& training = run.settings.training;
  if (training.do_train && training.per_device_train_batch_size > fitting)
    change = "training.per_device_train_batch_size";
  if ((training.do_eval || training.do_predict) && training.per_device_eval_batch_size > fitting)
    change += std::string(change.empty() ? "" : " and ") + "training.per_device_eval_batch_size";
  return change + " = " + std::to_string(fitting) + " would fit" + (keys.empty() ? "" : ", or " + keys + " as it is");
}

MemoryLimit written_limit(const MachineSettings& machine) {
  return {LimitKind::kMemory, static_cast<std::size_t>(machine.memory_limit_gib * 1073741824.0),
          "machine.memory_limit_gib"};
}

}  // namespace

std::vector<MemoryLimit> limits_here(const MachineSettings& machine, const ProcessLimits& limits) {
  std::vector<MemoryLimit> all;
  if (machine.memory_limit_gib > 0.0) all.push_back(written_limit(machine));
  all.push_back({LimitKind::kMemory, limits.memory_bytes, limits.memory_owner});
  if (limits.address_bytes != kUnlimitedBytes)
    all.push_back({LimitKind::kAddresses, limits.address_bytes, "RLIMIT_AS (ulimit -v)"});
  if (limits.data_bytes != kUnlimitedBytes)
    all.push_back({LimitKind::kData, limits.data_bytes, "RLIMIT_DATA (ulimit -d)"});
  return all;
}

std::vector<MemoryLimit> limits_of_plan(const MachineSettings& machine, const ProcessLimits& limits) {
  if (machine.memory_limit_gib > 0.0) return {written_limit(machine)};
  return limits_here(machine, limits);
}

std::size_t memory_of_plan(const MachineSettings& machine, const ProcessLimits& limits) {
  return machine.memory_limit_gib > 0.0 ? written_limit(machine).bytes : limits.memory_bytes;
}

Error too_large(const PlannedRun& run, const MemoryLimit& limit, const char* who, std::size_t needed,
                const std::string& advice) {
  const char* const what = limit.kind == LimitKind::kAddresses ? " of address space"
                           : limit.kind == LimitKind::kData    ? " of data"
                                                               : "";
  std::string needs = size_text(needed), allowed = size_text(limit.bytes);
  if (needs == allowed) {
    needs = std::to_string(needed) + " bytes";
    allowed = std::to_string(limit.bytes) + " bytes";
  }
  return Error(ErrorKind::kMemory, where_written(run.settings, "machine.memory_limit_gib"),
               std::string(who) + " needs " + needs + what + ", but " + limit.owner + " allows " + allowed, advice);
}

bool fits(const RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits) {
  return std::all_of(limits.begin(), limits.end(),
                     [&](const MemoryLimit& limit) { return needed_bytes(run, now, limit.kind) <= limit.bytes; });
}

LargestBatches largest_batches_that_fit(RecordedRun& run, Precision precision, const ProcessLimits& now,
                                        const std::vector<MemoryLimit>& limits) {
  struct Look {
    bool is_fitting;
    std::size_t peak_bytes;
  };
  const auto look = [&](std::int64_t batch, GradientCheckpointing checkpointing) {
    Settings settings = run.settings;
    settings.model.precision = precision;
    settings.training.per_device_train_batch_size = batch;
    settings.training.gradient_checkpointing = checkpointing;
    const RunVariant variant(run, settings);
    return Look{fits(variant.run(), now, limits), variant.run().plan.peak_bytes()};
  };
  std::size_t limit = kUnlimitedBytes;
  for (const MemoryLimit& other : limits) {
    if (other.kind == LimitKind::kMemory) limit = std::min(limit, other.bytes);
  }
  const BatchCut& cut = run.pace.length.cut;
  const std::int64_t world = run.place.world_size;
  const std::int64_t most = cut.drop_last ? cut.rows / world : divide_up<std::int64_t>(cut.rows, world);
  const auto largest = [&](GradientCheckpointing checkpointing) -> LargestBatch {
    const Look all = look(most, checkpointing);
    if (all.is_fitting) return {most, true};
    const Look one = look(1, checkpointing);
    if (!one.is_fitting) return {0, false};
    const std::int64_t guess = guess_between(1, one.peak_bytes, most, all.peak_bytes, limit);
    return {largest_between(1, most, guess, [&](std::int64_t batch) { return look(batch, checkpointing).is_fitting; }),
            false};
  };
  LargestBatches batches;
  batches.off = largest(GradientCheckpointing::kOff);
  batches.selective = largest(GradientCheckpointing::kSelective);
  batches.full = batches.fit = largest(GradientCheckpointing::kFull);
  // Recomputing everything is nearly the least.
  batches.fit.samples = largest_between(batches.full.samples, most, batches.full.samples + 1, [&](std::int64_t batch) {
    return look(batch, GradientCheckpointing::kFit).is_fitting;
  });
  for (LargestBatch* const batch : {&batches.off, &batches.selective, &batches.fit, &batches.full})
    batch->samples -= batch->samples % cut.dealt;
  return batches;
}

void check_fits(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits) {
  const bool is_least = run.settings.training.gradient_checkpointing == GradientCheckpointing::kFit;
  for (const MemoryLimit& limit : limits) {
    const std::size_t needed = needed_bytes(run, now, limit.kind);
    if (needed <= limit.bytes) continue;
    const char* const who = limit.kind != LimitKind::kMemory ? "a process"
                            : is_least                       ? "the smallest plan"
                                                             : "the plan";
    throw too_large(run, limit, who, needed, advice_for(run, now, limits, limit, needed));
  }
}

}  // namespace bascule
