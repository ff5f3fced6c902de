// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/own_tiles.h"

namespace bascule {
namespace {

template <typename Element>
class OwnGemm final : public Gemm {
 public:
  OwnGemm(const GemmSpec& spec, void (*kernel)(const GemmTileOf<Element>&), std::byte* scratch)
      : spec_(spec), kernel_(kernel), scratch_(scratch) {
    const bool weight = spec.kind == GemmKind::kWeightGradient;
    tiling_ = own_tiling(spec.kind, weight ? spec.n : spec.max_rows, weight ? spec.k : spec.n);
  }

  std::int64_t tasks(std::int64_t rows) const noexcept override { return grid(rows).tasks(); }

  void run(std::int64_t task, int thread, const GemmRun& run) const noexcept override {
    const OwnGrid cut = grid(run.rows);
    const std::int64_t row = task / cut.columns * cut.height, col = task % cut.columns * cut.width;
    const bool weight = spec_.kind == GemmKind::kWeightGradient;
    const bool column_of_a = weight, row_of_b = spec_.kind == GemmKind::kForward;
    kernel_({spec_.kind, run.c + row * spec_.ldc + col,
             static_cast<const Element*>(run.a) + (column_of_a ? row : row * spec_.lda),
             static_cast<const Element*>(run.b) + (row_of_b ? col * spec_.ldb : col),
             spec_.bias ? run.bias + col : nullptr, spec_.lda, spec_.ldb, spec_.ldc,
             std::min(cut.height, cut.all_rows - row), std::min(cut.width, cut.all_cols - col),
             weight ? run.rows : spec_.k, run.accumulate,
             scratch_ + static_cast<std::size_t>(thread) * kGemmTileScratchBytes});
  }

 private:
  OwnGrid grid(std::int64_t rows) const noexcept {
    const bool weight = spec_.kind == GemmKind::kWeightGradient;
    return own_grid(tiling_, weight ? spec_.n : rows, weight ? spec_.k : spec_.n);
  }

  GemmSpec spec_;
  void (*kernel_)(const GemmTileOf<Element>&);
  std::byte* scratch_;
  OwnTiling tiling_{};
};

class OwnProducts final : public GemmLibrary {
 public:
  OwnProducts(const KernelTable& kernels, void* scratch)
      : kernels_(kernels), scratch_(static_cast<std::byte*>(scratch)) {}

  std::unique_ptr<Gemm> make(const GemmSpec& spec) override {
    require_valid(spec);
    if (spec.type == GemmType::kBf16)
      return std::make_unique<OwnGemm<std::uint16_t>>(spec, kernels_.gemm_tile_bf16, scratch_);
    return std::make_unique<OwnGemm<float>>(spec, kernels_.gemm_tile, scratch_);
  }

 private:
  const KernelTable& kernels_;
  std::byte* scratch_;
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
  if (!extents || !strides || !bias || !(spec.may_overwrite || spec.may_accumulate)) {
    throw std::runtime_error(
        "gemm: invalid shape: an extent below 1, a stride below its columns, a bias with a sum or outside kForward, or "
        "no use");
  }
}

std::unique_ptr<GemmLibrary> own_products(const KernelTable& kernels, void* scratch) {
  return std::make_unique<OwnProducts>(kernels, scratch);
}

}  // namespace bascule
