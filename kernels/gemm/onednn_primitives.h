// SPDX-License-Identifier: Apache-2.0
// oneDNN's matmul primitives, made once and run by pointer. Inside the room only: onednn_gemm.cpp cuts products into
// these.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/onednn_tiles.h"

namespace bascule {

// Dst (m, n) = or += Src (m, k) Weights (k, n) + bias (n). The element (i, j) of a matrix lies at i * row + j * column.
struct ProductKey {
  std::int64_t m, n, k;
  std::int64_t src_row, src_column, weights_row, weights_column, dst_row;
  bool bias, accumulate;
};
bool operator<(const ProductKey& a, const ProductKey& b);

template <typename Handle, auto kDestroy>
struct DestroyHandle {
  using pointer = Handle;
  void operator()(Handle handle) const noexcept { kDestroy(handle); }
};
template <typename Handle, auto kDestroy>
using OwnedHandle = std::unique_ptr<Handle, DestroyHandle<Handle, kDestroy>>;

using OwnedEngine = OwnedHandle<dnnl_engine_t, dnnl_engine_destroy>;
using OwnedStream = OwnedHandle<dnnl_stream_t, dnnl_stream_destroy>;
using OwnedMemory = OwnedHandle<dnnl_memory_t, dnnl_memory_destroy>;
using OwnedPrimitive = OwnedHandle<dnnl_primitive_t, dnnl_primitive_destroy>;
using OwnedPrimitiveDesc = OwnedHandle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using OwnedAttributes = OwnedHandle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using OwnedPostOps = OwnedHandle<dnnl_post_ops_t, dnnl_post_ops_destroy>;

// One primitive, made for one thread to run, and what each of our threads needs to run it at the same time as the
// others.
class Product {
 public:
  Product(const ProductKey& key, int threads, dnnl_engine_t engine);

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  void set_scratch(int thread, void* scratch, dnnl_stream_t stream);
  void run(int thread, dnnl_stream_t stream, float* dst, const float* src, const float* weights,
           const float* bias) const noexcept;

 private:
  struct Arguments {
    OwnedMemory src, weights, dst, bias, scratch;
    std::array<dnnl_exec_arg_t, 5> list;  // bias last: left out by count where there is none
  };

  bool bias_;
  std::size_t scratch_bytes_ = 0;
  OwnedPrimitive primitive_;
  std::vector<Arguments> arguments_;  // by thread
};

class OnednnProducts final : public GemmLibrary {
 public:
  explicit OnednnProducts(int threads);
  std::unique_ptr<Gemm> make(const GemmSpec& spec) override;
  bool reads_past_rows() const noexcept override { return true; }

  const Product* product(const ProductKey& key);
  const GemmTiling& tiling() const noexcept { return tiling_; }
  dnnl_stream_t stream(int thread) const noexcept { return streams_[static_cast<std::size_t>(thread)].get(); }

 private:
  void grow_scratch(std::size_t bytes);
  void generate_code();

  struct FreeAligned {
    void operator()(void* block) const noexcept;
  };
  GemmTiling tiling_;
  OwnedEngine engine_;
  std::vector<OwnedStream> streams_;                         // by thread
  std::vector<std::unique_ptr<void, FreeAligned>> scratch_;  // by thread: as large as the largest need
  std::size_t scratch_bytes_ = 0;
  std::map<ProductKey, Product> products_;
};

}  // namespace bascule
