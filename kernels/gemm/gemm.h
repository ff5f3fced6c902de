// SPDX-License-Identifier: Apache-2.0
// Matrix products, cut by us into tiles that one thread computes: the same bits for any thread count. Behind: oneDNN.
//
// A Gemm is one product of a model, made before the seal for one set of extents and run after it for any number of rows
// R up to its bound.
//   kForward         C (R, n) = A (R, k) B (n, k)^T + bias       y = x W^T + b
//   kInputGradient   C (R, n) (+)= A (R, k) B (k, n)             dx = dy W
//   kWeightGradient  C (n, k) (+)= A (R, n)^T B (R, k)           dW = dy^T x
// All are row-major float32; strides are leading dimensions. R is rounded up to a multiple of 16, so
//   * A (and C of the first two kinds) must have align_up(R, 16) rows of memory, and the rows past R must hold finite
//     numbers; rows of C past R are overwritten with numbers of no meaning;
//   * for kWeightGradient rows past R of both A and B must be zero.
// Tiles, their chunks and the order of these depend on the extents, R and the ISA alone, never on threads (tiles.h).
//
//   auto cache = GemmCache::make(threads);               // before the seal; one a process, outlives its Gemms
//   auto gemm = Gemm::make(spec, *cache);                // before the seal
//   gemm_use_this_thread_alone();                        // once in every thread that runs tasks
//   for task in [0, gemm->tasks(rows)), on any thread t: gemm->run(task, t, {c, a, b, bias, rows, accumulate});
// Strides equal to the columns are the library's fast path; wider ones work, at up to a tenth less speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace bascule {

enum class GemmKind { kForward, kInputGradient, kWeightGradient };

struct GemmSpec {
  GemmKind kind;
  std::int64_t max_rows;  // bound of R
  std::int64_t n, k;      // as above
  std::int64_t lda, ldb, ldc;
  bool bias;                           // kForward only
  bool may_overwrite, may_accumulate;  // which of accumulate = false / true will be asked for
};

struct GemmRun {
  float* c;
  const float* a;
  const float* b;
  const float* bias;
  std::int64_t rows;
  bool accumulate;
};

// The library's primitives, shared by all Gemms that need the same ones, with argument blocks and scratch for each
// thread.
class GemmCache {
 public:
  static std::unique_ptr<GemmCache> make(int threads);
  virtual ~GemmCache() = default;

 protected:
  GemmCache() = default;
};

class Gemm {
 public:
  // Throws std::runtime_error (oneDNN's words) where the library has no implementation other than its reference one.
  // Not while another thread makes or runs a Gemm of the same cache. The cache must outlive the Gemm.
  static std::unique_ptr<Gemm> make(const GemmSpec& spec, GemmCache& cache);
  virtual ~Gemm() = default;

  virtual std::int64_t tasks(std::int64_t rows) const noexcept = 0;
  // thread: 0 .. threads-1; each has argument blocks of its own. Calls into the library, which allocates and frees at
  // once (7 blocks, 300 bytes a call; for weight gradients, wide strides and AVX2 also a packing buffer of some 100
  // KB).
  virtual void run(std::int64_t task, int thread, const GemmRun& run) const noexcept = 0;

 protected:
  Gemm() = default;
};

// Tells the library, which splits its work over OpenMP threads, to use none but the calling thread.
void gemm_use_this_thread_alone() noexcept;

// Caps oneDNN to the ISA ("avx2" / "avx512"). Must come before the first make(); false if it came too late.
bool gemm_limit_isa(bool avx512);
const char* gemm_library_version();

}  // namespace bascule
