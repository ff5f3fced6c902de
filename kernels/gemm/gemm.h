// SPDX-License-Identifier: Apache-2.0
// Matrix products, cut by us into tiles that one thread computes: the same bits for any thread count. They are our
// own (gemm_tile.h defines their arithmetic), or oneDNN's.
//
// A Gemm is one product of a model, made before the seal for one set of extents and run after it for any number of rows
// R up to its bound.
//   kForward         C (R, n) = A (R, k) B (n, k)^T + bias       y = x W^T + b
//   kInputGradient   C (R, n) (+)= A (R, k) B (k, n)             dx = dy W
//   kWeightGradient  C (n, k) (+)= A (R, n)^T B (R, k)           dW = dy^T x
// All are row-major; strides are leading dimensions, in elements. oneDNN's products round R up to a multiple of 16, so
//   * A (and C of the first two kinds) must have align_up(R, 16) rows of memory; rows of C past R may be overwritten
//     with values of no meaning;
//   * for kWeightGradient rows past R of both A and B must be zero.
//
//   auto library = own_products(kernels, threads, scratch, bytes);  // before the seal; outlives its Gemms
//   auto gemm = library->make(spec);                                // before the seal
//   for task in [0, gemm->tasks(rows)), on any thread t: gemm->run(task, t, {c, a, b, bias, rows, accumulate});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/gemm_tile.h"
#include "kernels/table.h"

namespace bascule {

// The arithmetic (gemm_tile.h): gemm_tile, all float32; or gemm_tile_bf16, operands of either type.
enum class GemmType { kFloat32, kBf16 };

struct GemmSpec {
  GemmKind kind;
  std::int64_t max_rows;  // bound of R
  std::int64_t n, k;      // as above
  std::int64_t lda, ldb, ldc;
  bool bias;                           // kForward that overwrites only
  bool may_overwrite, may_accumulate;  // which of accumulate = false / true will be asked for
  GemmType type = GemmType::kFloat32;
  bool b_is_packed = false;  // kForward of our own products: by PackColumns, of the same table
};

struct GemmRun {
  Elements c;  // bf16: GemmType::kBf16, and not accumulated
  ConstElements a, b;
  const float* bias;
  std::int64_t rows;
  bool accumulate;
};

class Gemm {
 public:
  virtual ~Gemm() = default;

  virtual std::int64_t tasks(std::int64_t rows) const noexcept = 0;
  // thread: 0 .. threads-1, each with scratch of its own. Allocates nothing itself; oneDNN allocates and frees at once
  // (7 blocks, 300 bytes a call; for weight gradients, wide strides and AVX2 also a packing buffer of some 100 KB).
  virtual void run(std::int64_t task, int thread, const GemmRun& run) const noexcept = 0;

 protected:
  Gemm() = default;
};

// The library that computes the products, with the scratch of each thread.
class GemmLibrary {
 public:
  virtual ~GemmLibrary() = default;
  // Throws std::runtime_error for a shape that is none; oneDNN's also for bf16, and where the library has only its
  // reference implementation. Not while another thread makes or runs a Gemm of the same library.
  virtual std::unique_ptr<Gemm> make(const GemmSpec& spec) = 0;
  // Whether products round R up, as oneDNN's do (above).
  virtual bool reads_past_rows() const noexcept { return false; }
  // How many threads share the tasks of a product.
  int threads() const noexcept { return threads_; }

 protected:
  explicit GemmLibrary(int threads) : threads_(threads) {}
  static void require_valid(const GemmSpec& spec);

 private:
  int threads_;
};

// Tiles depend on the extents and the number of threads, and do not show in the bits. scratch: scratch_bytes for each
// thread, 64-byte aligned: kGemmTileScratchBytes, or kGemmTileBf16ScratchBytes where a product is bf16.
std::unique_ptr<GemmLibrary> own_products(const KernelTable& kernels, int threads, void* scratch,
                                          std::size_t scratch_bytes);

// Tiles, their chunks and the order of these depend on the extents, R and the ISA, and show in the bits; so does the
// CPU. isa caps the library's instruction set, once a process. In each thread that runs tasks, OpenMP is told to use
// that one alone. Null if built without oneDNN.
std::unique_ptr<GemmLibrary> onednn_products(Isa isa, int threads);
std::string onednn_version();  // "oneDNN 2.6.3", or "none"

}  // namespace bascule
