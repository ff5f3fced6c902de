// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/machine_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "kernels/table.h"
#include "src/base/clock.h"
#include "src/base/span.h"
#include "src/bringup/memory_loops.h"
#include "src/bringup/workbench.h"
#include "src/runtime/choose_isa.h"

namespace bascule {
namespace {

GemmSpec spec_of(GemmKind kind, GemmType type, std::int64_t rows, std::int64_t n, std::int64_t k) {
  switch (kind) {
    case GemmKind::kForward: return {kind, rows, n, k, k, k, n, false, true, false, type};
    case GemmKind::kInputGradient: return {kind, rows, n, k, k, n, n, false, true, false, type};
    case GemmKind::kWeightGradient: break;
  }
  return {kind, rows, n, k, n, k, k, false, true, false, type};
}

// Numbers of both signs, none of which rounds to a value that another has.
void fill(const AlignedMemory& memory, std::int64_t count, ElementType type) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i * 7919 % 1009 - 504) * 0x1p-9f;
    if (type == ElementType::kFloat32) {
      memory.floats()[i] = value;
      continue;
    }
    std::uint32_t bits = 0;  // the upper half of a float is a bf16
    std::memcpy(&bits, &value, sizeof bits);
    const std::uint16_t half = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(memory.data() + 2 * i, &half, sizeof half);
  }
}

std::size_t bytes_of(std::int64_t count, ElementType type) {
  return static_cast<std::size_t>(count) * (type == ElementType::kBf16 ? 2 : sizeof(float));
}

constexpr int kRepeats = 5;
constexpr std::int64_t kRows = 2048;

template <typename Work>
double best_seconds(const Work& work) {
  double best = 0.0;
  for (int i = 0; i <= kRepeats; ++i) {
    const double began = monotonic_seconds();
    work();
    const double seconds = monotonic_seconds() - began;
    if (i == 1 || (i > 1 && seconds < best)) best = seconds;  // the first warms up
  }
  return best;
}

double best_gflops_per_second(Threads& threads, GemmLibrary& products, GemmType type) {
  double best = 0.0;
  for (const ProductShape& shape : kProductShapes) {
    const ProductData product(products, GemmKind::kForward, type, kRows, shape.n, shape.k);
    const double seconds = best_seconds([&] { product.run_on(threads); });
    best = std::max(best, product.flops() * 1e-9 / seconds);
  }
  return best;
}

void measure_memory(Threads& threads, Isa isa, MachineLimits* limits) {
  constexpr std::int64_t kTasks = 128;
  constexpr std::size_t kTaskBytes = std::size_t{1} << 20;
  constexpr double kGigabytes = static_cast<double>(kTasks * kTaskBytes) * 1e-9;
  const AlignedMemory from(kTasks * kTaskBytes), to(kTasks * kTaskBytes);
  const auto best_of_blocks = [&](const auto& move) {
    return best_seconds([&] {
      share_work(threads, kTasks, [&](std::int64_t task, int) { move(static_cast<std::size_t>(task) * kTaskBytes); });
    });
  };
  const double copied =
      best_of_blocks([&](std::size_t at) { std::memcpy(to.data() + at, from.data() + at, kTaskBytes); });
  limits->gigabytes_per_second = 2.0 * kGigabytes / copied;
  const MemoryLoops& loops = memory_loops_for(isa);
  limits->read_gigabytes_per_second =
      kGigabytes / best_of_blocks([&](std::size_t at) { loops.read(to.data() + at, kTaskBytes); });
}

}  // namespace

AlignedMemory::AlignedMemory(std::size_t bytes) {
  const std::size_t all = align_up(std::max<std::size_t>(bytes, 1), kPage);
  void* const memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = {static_cast<std::byte*>(memory), Unmap{all}};
  std::memset(memory_.get(), 0, all);  // touches each page
}

OwnProducts::OwnProducts(Isa isa, int threads, Bf16Law law)
    : scratch_(products_bytes(Products::kOurs, GemmType::kBf16, threads)),
      products_(make_products(Products::kOurs, GemmType::kBf16, kernels_for(isa, law), threads, scratch_.data())) {}

ProductData::ProductData(GemmLibrary& products, GemmKind kind, GemmType type, std::int64_t rows, std::int64_t n,
                         std::int64_t k)
    : rows_(rows),
      result_count_(kind == GemmKind::kWeightGradient ? n * k : rows * n),
      flops_(2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k)),
      a_type_(type == GemmType::kBf16 ? ElementType::kBf16 : ElementType::kFloat32),
      gemm_(products.make(spec_of(kind, type, rows, n, k))),
      a_(bytes_of(rows * (kind == GemmKind::kWeightGradient ? n : k), a_type_)),
      b_(bytes_of(kind == GemmKind::kWeightGradient ? rows * k : n * k, ElementType::kFloat32)),
      c_(bytes_of(result_count_, ElementType::kFloat32)) {
  fill(a_, rows * (kind == GemmKind::kWeightGradient ? n : k), a_type_);
  fill(b_, kind == GemmKind::kWeightGradient ? rows * k : n * k, ElementType::kFloat32);
}

void ProductData::run(std::int64_t task, int thread, float* c) const noexcept {
  gemm_->run(task, thread,
             {c != nullptr ? c : c_.floats(), ConstElements(a_.data(), a_type_), b_.floats(), nullptr, rows_, false});
}

void ProductData::run_on(Threads& threads) const {
  share_work(threads, tasks(), [this](std::int64_t task, int thread) { run(task, thread); });
}

MachineLimits measure_limits(Products products, GemmType type, const KernelTable& kernels, int threads) {
  Threads team(threads, threads == usable_cores());
  const AlignedMemory packed(products_bytes(products, type, threads));
  const std::unique_ptr<GemmLibrary> library = make_products(products, type, kernels, threads, packed.data());
  MachineLimits limits;
  limits.float32_gflops_per_second = best_gflops_per_second(team, *library, GemmType::kFloat32);
  if (type == GemmType::kBf16) limits.bf16_gflops_per_second = best_gflops_per_second(team, *library, type);
  measure_memory(team, kernels.isa, &limits);
  return limits;
}

double limits_flops(GemmType type) {
  double flops = 0.0;
  for (const ProductShape& shape : kProductShapes)
    flops += 2.0 * static_cast<double>(kRows) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  return (type == GemmType::kBf16 ? 2.0 : 1.0) * static_cast<double>(kRepeats + 1) * flops;
}

double seconds_at_limits(double flops, double bytes, bool in_bf16, const MachineLimits& limits) {
  const double gflops_per_second = in_bf16 ? limits.bf16_gflops_per_second : limits.float32_gflops_per_second;
  return std::max(flops * 1e-9 / gflops_per_second, bytes * 1e-9 / limits.gigabytes_per_second);
}

void add_node(OperationTime* time, const NodeTime& node, double replays, const MachineLimits* limits) {
  time->calls += std::llround(node.replays * replays);
  time->seconds += node.seconds;
  time->flops += node.flops * replays;
  time->bytes += node.bytes * replays;
  if (limits != nullptr)
    time->limit_seconds += replays * seconds_at_limits(node.flops, node.bytes, node.bf16_products, *limits);
}

std::vector<OperationTime> times_by_kind(const std::vector<NodeTime>& nodes, double replays,
                                         const MachineLimits* limits) {
  std::map<std::string, OperationTime> by_kind;
  for (const NodeTime& node : nodes) {
    by_kind[node.kind].name = node.kind;
    add_node(&by_kind[node.kind], node, replays, limits);
  }
  std::vector<OperationTime> times;
  times.reserve(by_kind.size());
  for (auto& [name, time] : by_kind) times.push_back(std::move(time));
  std::stable_sort(times.begin(), times.end(),
                   [](const OperationTime& a, const OperationTime& b) { return a.seconds > b.seconds; });
  return times;
}

}  // namespace bascule
