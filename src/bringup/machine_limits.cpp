// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/table.h"
#include "src/base/clock.h"
#include "src/bringup/product_data.h"
#include "src/bringup/share_work.h"
#include "src/runtime/choose_products.h"
#include "src/runtime/threads.h"

namespace bascule {
namespace {

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

double copied_gigabytes_per_second(Threads& threads) {
  constexpr std::int64_t kTasks = 128;
  constexpr std::size_t kTaskBytes = std::size_t{1} << 20;
  const AlignedMemory from(kTasks * kTaskBytes), to(kTasks * kTaskBytes);
  const double seconds = best_seconds([&] {
    share_work(threads, kTasks, [&](std::int64_t task, int) {
      const std::size_t at = static_cast<std::size_t>(task) * kTaskBytes;
      std::memcpy(to.data() + at, from.data() + at, kTaskBytes);
    });
  });
  return 2.0 * static_cast<double>(kTasks * kTaskBytes) * 1e-9 / seconds;
}

}  // namespace

MachineLimits measure_limits(Products products, GemmType type, Isa isa, int threads) {
  Threads team(threads, threads == usable_cores());
  const AlignedMemory packed(products_bytes(products, type, threads));
  const std::unique_ptr<GemmLibrary> library = make_products(products, type, kernels_for(isa), threads, packed.data());
  MachineLimits limits;
  limits.float32_gflops_per_second = best_gflops_per_second(team, *library, GemmType::kFloat32);
  if (type == GemmType::kBf16) limits.bf16_gflops_per_second = best_gflops_per_second(team, *library, type);
  limits.gigabytes_per_second = copied_gigabytes_per_second(team);
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

}  // namespace bascule
