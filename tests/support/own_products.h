// SPDX-License-Identifier: Apache-2.0
// Our own matrix products, with the memory that they work in.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace bascule::test {

class OwnProducts final : public GemmLibrary {
 public:
  explicit OwnProducts(int threads, Isa isa = best_isa(), Bf16Law law = Bf16Law::kPairs)
      : GemmLibrary(threads),
        scratch_(static_cast<std::size_t>(threads)),
        library_(own_products(kernels_for(isa, law), threads, scratch_.data(), sizeof(Scratch))) {}
  std::unique_ptr<Gemm> make(const GemmSpec& spec) override { return library_->make(spec); }

 private:
  struct alignas(64) Scratch {
    std::byte bytes[kGemmTileBf16ScratchBytes];
  };
  static_assert(sizeof(Scratch) == kGemmTileBf16ScratchBytes);
  std::vector<Scratch> scratch_;
  std::unique_ptr<GemmLibrary> library_;
};

}  // namespace bascule::test
