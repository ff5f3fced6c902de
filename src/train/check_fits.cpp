// SPDX-License-Identifier: Apache-2.0
#include "src/train/check_fits.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/report/readable.h"

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
  const bool has_device = loader.engine != nullptr && loader.engine != media_engine_host();
  return static_cast<std::size_t>(run.threads - 1 + loader.workers + (has_device ? loader.device_units + 1 : 0) +
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

// judge(the same run with no batch larger than `batch`).
template <typename Judge>
auto judge_with(const RecordedRun& run, std::int64_t batch, const Judge& judge) {
  Settings smaller = run.settings;
  for (std::int64_t* size :
       {&smaller.training.per_device_train_batch_size, &smaller.training.per_device_eval_batch_size}) {
    *size = std::min(*size, batch);
  }
  return judge(*record_run(smaller, run.place));
}

// A plan in GiB, as its limit is written; what a process may map is often less than one.
std::string size_text(LimitKind kind, std::size_t bytes) {
  if (kind != LimitKind::kMemory) return readable_bytes(bytes).c_str();
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / 1073741824.0);
  return text;
}

std::string problem_of(const MemoryLimit& limit, std::size_t needed) {
  const char* const who = limit.kind == LimitKind::kMemory ? "the plan" : "a process";
  const char* const what = limit.kind == LimitKind::kAddresses ? " of address space"
                           : limit.kind == LimitKind::kData    ? " of data"
                                                               : "";
  std::string needs = size_text(limit.kind, needed), allowed = size_text(limit.kind, limit.bytes);
  if (needs == allowed) {
    needs = std::to_string(needed) + " bytes";
    allowed = std::to_string(limit.bytes) + " bytes";
  }
  return std::string(who) + " needs " + needs + what + ", but " + limit.owner + " allows " + allowed;
}

// Which smaller batch would fit all limits, of which the run exceeds `limit`.
std::string advice_for(const RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits,
                       const MemoryLimit& limit, std::size_t needed) {
  const auto batch_fits = [&](std::int64_t batch) {
    return judge_with(run, batch, [&](const RecordedRun& smaller) { return fits(smaller, now, limits); });
  };
  const std::int64_t largest = largest_batch(run.settings);
  const std::size_t least =
      judge_with(run, 1, [&](const RecordedRun& smallest) { return needed_bytes(smallest, now, limit.kind); });
  if (least > limit.bytes) return "no batch size fits: batch size 1 needs " + size_text(limit.kind, least);
  // Nearly a line between 1 and now: guess on it, then plan that, as the plan itself is the judge.
  std::int64_t fitting =
      1 + static_cast<std::int64_t>(static_cast<double>(largest - 1) * static_cast<double>(limit.bytes - least) /
                                    static_cast<double>(needed - least));
  while (fitting > 1 && !batch_fits(fitting)) --fitting;
  while (fitting + 1 < largest && batch_fits(fitting + 1)) ++fitting;
  std::string change;
  const TrainingSettings& training = run.settings.training;
  if (training.do_train && training.per_device_train_batch_size > fitting)
    change = "training.per_device_train_batch_size";
  if ((training.do_eval || training.do_predict) && training.per_device_eval_batch_size > fitting)
    change += std::string(change.empty() ? "" : " and ") + "training.per_device_eval_batch_size";
  return change + " = " + std::to_string(fitting) + " would fit";
}

MemoryLimit written_limit(const Settings& settings) {
  return {LimitKind::kMemory, static_cast<std::size_t>(settings.machine.memory_limit_gib * 1073741824.0),
          "machine.memory_limit_gib"};
}

}  // namespace

std::vector<MemoryLimit> limits_here(const Settings& settings, const ProcessLimits& limits) {
  std::vector<MemoryLimit> all;
  if (settings.machine.memory_limit_gib > 0.0) all.push_back(written_limit(settings));
  all.push_back({LimitKind::kMemory, limits.memory_bytes, limits.memory_owner});
  if (limits.address_bytes != kUnlimitedBytes)
    all.push_back({LimitKind::kAddresses, limits.address_bytes, "RLIMIT_AS (ulimit -v)"});
  if (limits.data_bytes != kUnlimitedBytes)
    all.push_back({LimitKind::kData, limits.data_bytes, "RLIMIT_DATA (ulimit -d)"});
  return all;
}

std::vector<MemoryLimit> limits_of_plan(const Settings& settings, const ProcessLimits& limits) {
  if (settings.machine.memory_limit_gib > 0.0) return {written_limit(settings)};
  return limits_here(settings, limits);
}

bool fits(const RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits) {
  return std::all_of(limits.begin(), limits.end(),
                     [&](const MemoryLimit& limit) { return needed_bytes(run, now, limit.kind) <= limit.bytes; });
}

void check_fits(const RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits) {
  for (const MemoryLimit& limit : limits) {
    const std::size_t needed = needed_bytes(run, now, limit.kind);
    if (needed <= limit.bytes) continue;
    throw Error(ErrorKind::kMemory, where_written(run.settings, "machine.memory_limit_gib"), problem_of(limit, needed),
                advice_for(run, now, limits, limit, needed));
  }
}

}  // namespace bascule
