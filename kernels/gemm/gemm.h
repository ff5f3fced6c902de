// SPDX-License-Identifier: Apache-2.0
// Matrix products, cut by us into tiles that one thread computes: the same bits for any thread count. Behind it: oneDNN.
//
// A Gemm is one product of a model, made before the seal for one set of extents and run after it for any number of rows R up to its bound.
//   kForward         C (R, n) = A (R, k) B (n, k)^T + bias       y = x W^T + b
//   kInputGradient   C (R, n) (+)= A (R, k) B (k, n)             dx = dy W
//   kWeightGradient  C (n, k) (+)= A (R, n)^T B (R, k)           dW = dy^T x; R is contracted, in chunks of a fixed height summed in order
// All are row-major float32; strides are leading dimensions. Tiles are at most 256 rows high; R is rounded up to a multiple of 16, so
//   * A (and C of the first two kinds) must have align_up(R, 16) rows of memory, and the rows past R must hold finite numbers;
//     rows of C past R are overwritten with numbers of no meaning;
//   * for kWeightGradient rows past R of both A and B must be zero.
// Tiles, chunks and their order depend on the extents and R alone, never on threads.
//
//   auto gemm = Gemm::make(spec, isa, threads);          // before the seal
//   for task in [0, gemm->tasks(rows)), on any thread t: gemm->run(task, t, {c, a, b, bias, rows, accumulate});
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
  bool bias;              // kForward only
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

class Gemm {
 public:
  // Throws std::runtime_error (oneDNN's words) where the library has no implementation other than its reference one.
  static std::unique_ptr<Gemm> make(const GemmSpec& spec, int threads);
  virtual ~Gemm() = default;

  virtual std::int64_t tasks(std::int64_t rows) const noexcept = 0;
  // thread: 0 .. threads-1; each has argument blocks of its own. Calls into the library, which allocates (264 bytes a call, freed at once).
  virtual void run(std::int64_t task, int thread, const GemmRun& run) const noexcept = 0;

 protected:
  Gemm() = default;
};

// Caps oneDNN to the ISA ("avx2" / "avx512"). Must come before the first make(); false if it came too late.
bool gemm_limit_isa(bool avx512);
const char* gemm_library_version();

}  // namespace bascule
