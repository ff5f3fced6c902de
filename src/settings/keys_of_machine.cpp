// SPDX-License-Identifier: Apache-2.0
// The keys of ranks, the machine and what a run leaves.
#include "src/settings/key_tables.h"

namespace bascule {
namespace {

// In the order of the enumerators.
constexpr const char* kStrategies[] = {"fast_ddp", "ddp", "sharded"};
constexpr const char* kIsas[] = {"auto", "avx2", "avx512", "scalar", "avx512_bf16", "amx"};
constexpr const char* kBf16Sums[] = {"pairs", "tiles"};
constexpr const char* kProducts[] = {"ours", "onednn"};
constexpr const char* kTracking[] = {"none", "mlflow"};
constexpr const char* kHugePages[] = {"transparent", "reserved", "off"};

using Distributed = DistributedSettings;
using Machine = MachineSettings;
using Report = ReportSettings;

constexpr Key kMachineKeys[] = {
    // [distributed]
    {"distributed", "world_size", integer<&Distributed::world_size>(1, 65536), kSameProduct,
     "ranks (processes); bascule plan proposes how many"},
    {"distributed", "distribution_strategy", choice<&Distributed::distribution_strategy>(kStrategies), kFree,
     "how gradients are summed; every strategy gives the same bits"},
    {"distributed", "wire_type", choice<&Distributed::wire_type>(kNumberTypes), kBetweenMachines,
     "number type of gradients sent between machines"},
    {"distributed", "bucket_mib", integer<&Distributed::bucket_mib>(1, 65536), kFree,
     "bucket size of `ddp` and `sharded`, MiB"},
    {"distributed", "sharded_stage", integer<&Distributed::sharded_stage>(1, 3), kFree,
     "sharded state: 1 optimizer state, 2 also gradients, 3 also parameters"},
    {"distributed", "timeout_seconds", integer<&Distributed::timeout_seconds>(1, 86400), kFree,
     "time without a sign of life after which a rank counts as failed, seconds"},
    {"distributed", "hostfile", path<&Distributed::hostfile>(), kFree,
     "file of machines for mpirun, including this one; empty: only this machine"},
    // [machine]
    {"machine", "memory_limit_gib", real<&Machine::memory_limit_gib>(0.0, 1e6), kFree,
     "memory that the run may use, GiB; 0: as much as the machine and its control groups allow"},
    {"machine", "threads", integer<&Machine::threads>(0, 4096), kFree,
     "compute threads; 0: every core of this rank, up to its CPU quota"},
    {"machine", "isa", choice<&Machine::isa>(kIsas), kWithLibrary,
     "instruction set of the kernels; auto: the fastest of this CPU; scalar: plain C++, for checking, not for speed"},
    {"machine", "products", choice<&Machine::products>(kProducts), kNumbers,
     "matrix products: `ours`: the same bits on every CPU with AVX2 and FMA; `onednn`: only on the same kind of CPU "
     "and `isa`",
     nullptr, "\"onednn\""},
    {"machine", "bf16_sums", choice<&Machine::bf16_sums>(kBf16Sums), kNumbers,
     "order in which our products in bf16 add: `pairs`: that of VDPBF16PS; `tiles`: that of AMX, several times as fast "
     "on "
     "a CPU that has it; either has the same bits on every CPU",
     nullptr, "\"pairs\""},
    {"machine", "huge_pages", choice_or_flag<&Machine::huge_pages>(kHugePages), kFree,
     "pages of the arenas: `transparent`: large where the system forms them; `reserved`: from the pool that "
     "`vm.nr_hugepages` reserves; `off`: small; without large pages a run says so and uses small ones"},
    {"machine", "lock_memory", boolean<&Machine::lock_memory>(), kFree,
     "lock the arenas in memory, so that they are never swapped out"},
    {"machine", "step_seconds", real<&Machine::step_seconds>(0.0, 3600.0), kNumbers,
     "above 0: wait this long in place of each step's arithmetic, to measure loading at an accelerator's pace, "
     "seconds"},
    // [report]
    {"report", "tensorboard", boolean<&Report::tensorboard>(), kFree, "write TensorBoard event files under `runs/`"},
    {"report", "html", boolean<&Report::html>(), kFree, "write `report.html`"},
    {"report", "profile", boolean<&Report::profile>(), kFree,
     "write `trace.json`: the mean step, operation by operation, for chrome://tracing or Perfetto"},
    {"report", "hash_steps", integer<&Report::hash_steps>(0, kMany), kFree,
     "hash values and gradients every N updates, tensor by tensor, for `bascule diff`; 0: never"},
    {"report", "status_seconds", real<&Report::status_seconds>(0.0, 86400.0), kFree,
     "seconds between writes of `status.json` and `bascule.prom`, for monitoring; 0: never"},
    {"report", "tracking", choice<&Report::tracking>(kTracking), kFree,
     "`mlflow`: write settings, figures and links to the results for `mlflow ui`"},
    {"report", "tracking_dir", path<&Report::tracking_dir>(), kFree,
     "folder that the runs shown together write to; empty: `mlruns` beside `output_dir`"},
    {"report", "mlperf_log", text<&Report::mlperf_log>(true), kFree,
     "write `mlperf_log.txt`, a log for MLPerf's tools, in the name of this organisation; empty: no log"},
};

}  // namespace

Span<const Key> keys_of_machine() { return {kMachineKeys, std::size(kMachineKeys)}; }

}  // namespace bascule
