// SPDX-License-Identifier: Apache-2.0
// Matrix products to measure with, and the limits of this machine made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/isa.h"
#include "src/answer/page.h"
#include "src/base/mapped_memory.h"
#include "src/runtime/tape.h"
#include "src/runtime/threads.h"
#include "src/settings/settings.h"

namespace bascule {

// A matrix product with operands of its own, in one of the shapes of a model.

// 64-byte aligned; its numbers are 0.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t bytes);
  std::byte* data() const { return memory_.get(); }
  float* floats() const { return static_cast<float*>(static_cast<void*>(memory_.get())); }

 private:
  MappedMemory memory_;  // a heap would keep part of it, and a run that follows would count that as its own
};

// Our own products, for so many threads.
class OwnProducts {
 public:
  OwnProducts(Isa isa, int threads, Bf16Law law = Bf16Law::kPairs);
  GemmLibrary& products() { return *products_; }

 private:
  AlignedMemory scratch_;
  std::unique_ptr<GemmLibrary> products_;
};

struct ProductShape {
  std::int64_t n, k;
};
// Attention and feed-forward layers of a transformer of base size.
constexpr ProductShape kProductShapes[] = {{768, 768}, {3072, 768}, {768, 3072}};

// C = A B in the sense of `kind` (gemm.h), over `rows` rows of a layer from k to n columns. bf16: A is bf16, as
// activations and their gradients are, B float32, as weights are.
class ProductData {
 public:
  ProductData(GemmLibrary& products, GemmKind kind, GemmType type, std::int64_t rows, std::int64_t n, std::int64_t k);

  std::int64_t tasks() const noexcept { return gemm_->tasks(rows_); }
  // Into `c` of result_count() floats, or, null, into memory of its own.
  void run(std::int64_t task, int thread, float* c = nullptr) const noexcept;
  void run_on(Threads& threads) const;  // all tasks
  double flops() const { return flops_; }
  std::int64_t result_count() const { return result_count_; }
  const float* result() const { return c_.floats(); }

 private:
  std::int64_t rows_, result_count_;
  double flops_;
  ElementType a_type_;
  std::unique_ptr<Gemm> gemm_;
  AlignedMemory a_, b_, c_;
};

// The limits of this machine, measured with as many threads as a run has: `bascule bench` and the report of a run that
// draws compare operations with them. The same work as the items "products" and "memory" of a bring-up, once instead of
// in rounds.

struct MachineLimits {
  // Matrix products of a transformer's sizes, the best of several; bf16: products of bf16 activations and float32
  // weights (kernels/gemm_tile.h), 0 where the run has none.
  double float32_gflops_per_second = 0.0, bf16_gflops_per_second = 0.0;
  double gigabytes_per_second = 0.0;       // read and written by a plain copy of memory larger than the caches
  double read_gigabytes_per_second = 0.0;  // of such memory that is only read, as weights are
};

inline constexpr std::size_t kLimitsBytes = std::size_t{300} << 20;  // what measuring takes, given back at once

// type: of the run's products. Takes about a second. While memory is not sealed.
MachineLimits measure_limits(Products products, GemmType type, const KernelTable& kernels, int threads);

// The arithmetic of measuring them, in floating-point operations.
double limits_flops(GemmType type);

// How long work takes at the limits: its arithmetic, or its memory traffic where that takes longer.
double seconds_at_limits(double flops, double bytes, bool in_bf16, const MachineLimits& limits);

// Adds a node, whose seconds are a sum over so many replays and whose work is that of one. limits: null: not measured.
void add_node(OperationTime* time, const NodeTime& node, double replays, const MachineLimits* limits);
// Each kind of operation, the longest first.
std::vector<OperationTime> times_by_kind(const std::vector<NodeTime>& nodes, double replays,
                                         const MachineLimits* limits);

}  // namespace bascule
