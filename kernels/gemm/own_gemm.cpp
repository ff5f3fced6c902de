// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/own_tiles.h"

namespace bascule {
namespace {

class OwnGemm final : public Gemm {
 public:
  OwnGemm(const GemmSpec& spec, int threads, const KernelTable& kernels, std::byte* scratch, std::size_t scratch_bytes)
      : spec_(spec),
        kernel_(spec.type == GemmType::kBf16 ? kernels.gemm_tile_bf16 : kernels.gemm_tile),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes) {
    const bool weight = spec.kind == GemmKind::kWeightGradient;
    tiling_ = own_tiling(spec.kind, weight ? spec.n : spec.max_rows, weight ? spec.k : spec.n, threads,
                         costs_of(kernels, spec.type == GemmType::kBf16));
  }

  std::int64_t tasks(std::int64_t rows) const noexcept override { return grid(rows).tasks(); }

  void run(std::int64_t task, int thread, const GemmRun& run) const noexcept override {
    const OwnGrid cut = grid(run.rows);
    const std::int64_t row = task / cut.columns * cut.height, col = task % cut.columns * cut.width;
    const bool weight = spec_.kind == GemmKind::kWeightGradient;
    const bool column_of_a = weight, row_of_b = spec_.kind == GemmKind::kForward;
    kernel_({spec_.kind, run.c + (row * spec_.ldc + col), run.a + (column_of_a ? row : row * spec_.lda),
             run.b + (row_of_b ? col * spec_.ldb : col), spec_.bias ? run.bias + col : nullptr, spec_.lda, spec_.ldb,
             spec_.ldc, std::min(cut.height, cut.all_rows - row), std::min(cut.width, cut.all_cols - col),
             weight ? run.rows : spec_.k, run.accumulate, scratch_ + static_cast<std::size_t>(thread) * scratch_bytes_,
             spec_.b_is_packed});
  }

 private:
  OwnGrid grid(std::int64_t rows) const noexcept {
    const bool weight = spec_.kind == GemmKind::kWeightGradient;
    return own_grid(tiling_, weight ? spec_.n : rows, weight ? spec_.k : spec_.n);
  }

  GemmSpec spec_;
  KernelFunction<GemmTile> kernel_;
  std::byte* scratch_;
  std::size_t scratch_bytes_;
  OwnTiling tiling_{};
};

class OwnProducts final : public GemmLibrary {
 public:
  OwnProducts(const KernelTable& kernels, int threads, void* scratch, std::size_t scratch_bytes)
      : GemmLibrary(threads),
        kernels_(kernels),
        scratch_(static_cast<std::byte*>(scratch)),
        scratch_bytes_(scratch_bytes) {}

  std::unique_ptr<Gemm> make(const GemmSpec& spec) override {
    require_valid(spec);
    const bool is_bf16 = spec.type == GemmType::kBf16;
    if (scratch_bytes_ < (is_bf16 ? kGemmTileBf16ScratchBytes : kGemmTileScratchBytes))
      throw std::runtime_error("gemm: the scratch of a thread is too small");
    return std::make_unique<OwnGemm>(spec, threads(), kernels_, scratch_, scratch_bytes_);
  }

 private:
  const KernelTable& kernels_;
  std::byte* scratch_;
  std::size_t scratch_bytes_;
};

}  // namespace

void GemmLibrary::require_valid(const GemmSpec& spec) {
  const bool weight = spec.kind == GemmKind::kWeightGradient;
  const bool extents = spec.max_rows >= 1 && spec.n >= 1 && spec.k >= 1;
  const std::int64_t a_columns = weight ? spec.n : spec.k;
  const std::int64_t b_columns = spec.kind == GemmKind::kInputGradient ? spec.n : spec.k;
  const std::int64_t c_columns = weight ? spec.k : spec.n;
  const bool strides = spec.lda >= a_columns && spec.ldb >= b_columns && spec.ldc >= c_columns;
  const bool bias = !spec.bias || (spec.kind == GemmKind::kForward && !spec.may_accumulate);
  const bool packed =
      !spec.b_is_packed || (spec.kind == GemmKind::kForward && spec.n % kPackedCols == 0 && spec.ldb == spec.k);
  if (!extents || !strides || !bias || !packed || !(spec.may_overwrite || spec.may_accumulate)) {
    throw std::runtime_error(
        "gemm: invalid shape: an extent below 1, a stride below its columns, a bias with a sum or outside kForward, "
        "columns that cannot be packed, or no use");
  }
}

std::unique_ptr<GemmLibrary> own_products(const KernelTable& kernels, int threads, void* scratch,
                                          std::size_t scratch_bytes) {
  return std::make_unique<OwnProducts>(kernels, threads, scratch, scratch_bytes);
}

}  // namespace bascule
