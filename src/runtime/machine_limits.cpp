// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "src/base/clock.h"

namespace bascule {
namespace {

constexpr int kRepeats = 5;
constexpr std::int64_t kShapes[][2] = {{768, 768}, {3072, 768}, {768, 3072}};  // n, k

double best_seconds(Threads& threads, const Step& step) {
  double best = 0.0;
  for (int i = 0; i <= kRepeats; ++i) {
    const double began = monotonic_seconds();
    threads.replay(Span<const Step>(&step, 1), Replay{}, {});
    const double seconds = monotonic_seconds() - began;
    if (i == 1 || (i > 1 && seconds < best)) best = seconds;  // the first warms up
  }
  return best;
}

struct Product {
  static constexpr std::int64_t kRows = 2048;

  Product(std::int64_t n, std::int64_t k, GemmLibrary& products, GemmType type)
      : gemm(products.make({GemmKind::kForward, kRows, n, k, k, k, n, false, true, false, type})),
        flops(2.0 * static_cast<double>(kRows) * static_cast<double>(n) * static_cast<double>(k)),
        is_bf16(type == GemmType::kBf16),
        a(static_cast<std::size_t>(kRows * k), 0.5f),
        a_bf16(is_bf16 ? a.size() : 0, std::uint16_t{0x3f00}),  // 0.5
        b(static_cast<std::size_t>(n * k), 0.25f),
        c(static_cast<std::size_t>(kRows * n)) {}

  static std::int64_t tasks(const void* arguments, const Replay&) {
    return static_cast<const Product*>(arguments)->gemm->tasks(kRows);
  }
  static void run(const void* arguments, const Replay&, std::int64_t task, int thread) {
    const Product& p = *static_cast<const Product*>(arguments);
    const ConstElements a = p.is_bf16 ? ConstElements(p.a_bf16.data()) : ConstElements(p.a.data());
    p.gemm->run(task, thread, {p.c.data(), a, p.b.data(), nullptr, kRows, false});
  }

  std::unique_ptr<Gemm> gemm;
  double flops;
  bool is_bf16;
  std::vector<float> a;
  std::vector<std::uint16_t> a_bf16;
  std::vector<float> b;
  mutable std::vector<float> c;
};

struct Copy {
  static constexpr std::int64_t kTasks = 128;
  static constexpr std::size_t kTaskBytes = std::size_t{1} << 20;

  static std::int64_t tasks(const void*, const Replay&) { return kTasks; }
  static void run(const void* arguments, const Replay&, std::int64_t task, int) {
    const Copy& copy = *static_cast<const Copy*>(arguments);
    const std::size_t at = static_cast<std::size_t>(task) * kTaskBytes;
    std::memcpy(copy.to.data() + at, copy.from.data() + at, kTaskBytes);
  }

  std::vector<unsigned char> from = std::vector<unsigned char>(kTasks * kTaskBytes, 1);
  mutable std::vector<unsigned char> to = std::vector<unsigned char>(kTasks * kTaskBytes, 2);
};

double best_gflops_per_second(Threads& threads, GemmLibrary& products, GemmType type) {
  double best = 0.0;
  for (const auto& shape : kShapes) {
    const Product product(shape[0], shape[1], products, type);
    best = std::max(best, product.flops * 1e-9 / best_seconds(threads, {Product::run, Product::tasks, &product, 0}));
  }
  return best;
}

}  // namespace

MachineLimits measure_limits(Threads& threads, GemmLibrary& products, GemmType type) {
  MachineLimits limits;
  limits.float32_gflops_per_second = best_gflops_per_second(threads, products, GemmType::kFloat32);
  if (type == GemmType::kBf16) limits.bf16_gflops_per_second = best_gflops_per_second(threads, products, type);
  const Copy copy;
  const double seconds = best_seconds(threads, {Copy::run, Copy::tasks, &copy, 0});
  limits.gigabytes_per_second = 2.0 * static_cast<double>(Copy::kTasks * Copy::kTaskBytes) * 1e-9 / seconds;
  return limits;
}

}  // namespace bascule
