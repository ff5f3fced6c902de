// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/onednn_primitives.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

// From libgomp, which Debian's oneDNN uses for its threads. <omp.h> and -fopenmp would be those of the compiler: with
// Clang another runtime, whose thread count is not the one that the library asks for.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
}

namespace bascule {
namespace {

void require(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw std::runtime_error(std::string("oneDNN: ") + call + ": " + dnnl_status2str(status));
}

// The library splits its work, also when a primitive is made, over as many threads as OpenMP would use here.
void use_this_thread_alone() {
  [[maybe_unused]] static thread_local const bool is_alone = (omp_set_num_threads(1), true);
}

dnnl_memory_desc_t matrix(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  const dnnl_dims_t extents = {rows, columns};
  const dnnl_dims_t strides = {row, column};
  dnnl_memory_desc_t desc;
  require(dnnl_memory_desc_init_by_strides(&desc, 2, extents, dnnl_f32, strides), "memory descriptor");
  return desc;
}

OwnedAttributes attributes(bool accumulate) {
  dnnl_primitive_attr_t created = nullptr;
  require(dnnl_primitive_attr_create(&created), "attributes");
  OwnedAttributes attributes(created);
  require(dnnl_primitive_attr_set_scratchpad_mode(created, dnnl_scratchpad_mode_user), "scratchpad mode");
  if (accumulate) {
    dnnl_post_ops_t created_ops = nullptr;
    require(dnnl_post_ops_create(&created_ops), "post-ops");
    const OwnedPostOps post_ops(created_ops);
    require(dnnl_post_ops_append_sum(created_ops, 1.0f), "sum");
    require(dnnl_primitive_attr_set_post_ops(created, created_ops), "post-ops of attributes");
  }
  return attributes;
}

void refuse_reference(const_dnnl_primitive_desc_t desc) {
  const char* name = "";
  require(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name), "implementation name");
  if (std::string(name).find("ref") != std::string::npos) {
    throw std::runtime_error(std::string("oneDNN: matmul: only the slow reference implementation (") + name +
                             ") supports this product");
  }
}

OwnedMemory memory(const dnnl_memory_desc_t& desc, dnnl_engine_t engine) {
  dnnl_memory_t created = nullptr;
  require(dnnl_memory_create(&created, &desc, engine, DNNL_MEMORY_NONE), "memory");
  return OwnedMemory(created);
}

[[noreturn]] void end_program(const char* call) {
  std::fprintf(stderr, "bascule: bug: oneDNN failed in %s, with arguments that it accepted before\n", call);
  std::_Exit(1);
}

}  // namespace

bool operator<(const ProductKey& a, const ProductKey& b) {
  const auto all = [](const ProductKey& key) {
    return std::tie(key.m, key.n, key.k, key.src_row, key.src_column, key.weights_row, key.weights_column, key.dst_row,
                    key.bias, key.accumulate);
  };
  return all(a) < all(b);
}

Product::Product(const ProductKey& key, int threads, dnnl_engine_t engine) : bias_(key.bias) {
  use_this_thread_alone();
  const dnnl_memory_desc_t src = matrix(key.m, key.k, key.src_row, key.src_column);
  const dnnl_memory_desc_t weights = matrix(key.k, key.n, key.weights_row, key.weights_column);
  const dnnl_memory_desc_t dst = matrix(key.m, key.n, key.dst_row, 1);
  const dnnl_memory_desc_t bias = matrix(1, key.n, key.n, 1);

  dnnl_matmul_desc_t operation;
  require(dnnl_matmul_desc_init(&operation, &src, &weights, key.bias ? &bias : nullptr, &dst), "matmul descriptor");
  const OwnedAttributes attribute = attributes(key.accumulate);
  dnnl_primitive_desc_t created_desc = nullptr;
  require(dnnl_primitive_desc_create(&created_desc, &operation, attribute.get(), engine, nullptr), "matmul");
  const OwnedPrimitiveDesc desc(created_desc);
  refuse_reference(created_desc);
  const dnnl_memory_desc_t scratch = *dnnl_primitive_desc_query_md(created_desc, dnnl_query_scratchpad_md, 0);
  scratch_bytes_ = dnnl_memory_desc_get_size(&scratch);
  dnnl_primitive_t created = nullptr;
  require(dnnl_primitive_create(&created, created_desc), "primitive");
  primitive_.reset(created);

  for (int thread = 0; thread < threads; ++thread) {
    Arguments arguments{memory(src, engine),  memory(weights, engine), memory(dst, engine),
                        memory(bias, engine), memory(scratch, engine), {}};
    arguments.list = {{{DNNL_ARG_SRC, arguments.src.get()},
                       {DNNL_ARG_WEIGHTS, arguments.weights.get()},
                       {DNNL_ARG_DST, arguments.dst.get()},
                       {DNNL_ARG_SCRATCHPAD, arguments.scratch.get()},
                       {DNNL_ARG_BIAS, arguments.bias.get()}}};
    arguments_.push_back(std::move(arguments));
  }
}

void Product::set_scratch(int thread, void* scratch, dnnl_stream_t stream) {
  const Arguments& arguments = arguments_[static_cast<std::size_t>(thread)];
  require(dnnl_memory_set_data_handle_v2(arguments.scratch.get(), scratch, stream), "scratchpad");
}

void Product::run(int thread, dnnl_stream_t stream, float* dst, const float* src, const float* weights,
                  const float* bias) const noexcept {
  use_this_thread_alone();
  const Arguments& arguments = arguments_[static_cast<std::size_t>(thread)];
  // The library's handles know no const; it reads through these.
  const auto point = [stream](const OwnedMemory& to, const float* at) {
    if (dnnl_memory_set_data_handle_v2(to.get(), const_cast<float*>(at), stream) != dnnl_success) {
      end_program("dnnl_memory_set_data_handle_v2");
    }
  };
  point(arguments.src, src);
  point(arguments.weights, weights);
  point(arguments.dst, dst);
  if (bias_) point(arguments.bias, bias);
  const int count = bias_ ? 5 : 4;
  if (dnnl_primitive_execute(primitive_.get(), stream, count, arguments.list.data()) != dnnl_success) {
    end_program("dnnl_primitive_execute");
  }
}

OnednnProducts::OnednnProducts(int threads)
    : GemmLibrary(threads),
      tiling_(dnnl_get_effective_cpu_isa() < dnnl_cpu_isa_avx512_core ? kTilingAvx2 : kTilingAvx512) {
  dnnl_engine_t created_engine = nullptr;
  require(dnnl_engine_create(&created_engine, dnnl_cpu, 0), "engine");
  engine_.reset(created_engine);
  for (int thread = 0; thread < threads; ++thread) {
    dnnl_stream_t created = nullptr;
    require(dnnl_stream_create(&created, created_engine, dnnl_stream_default_flags), "stream");
    streams_.emplace_back(created);
    scratch_.emplace_back();
  }
  generate_code();
}

// The library generates its three families of sgemm code at the first product that takes them (40,000 allocations in
// all): here, not in the first step. Which products take them was found by counting allocations over 4,000 shapes; rows
// wider than the matrix keep it from its other implementation.
void OnednnProducts::generate_code() {
  use_this_thread_alone();
  const float zeros[64] = {};
  float dst[64];
  for (const ProductKey& key :
       {ProductKey{6, 2, 1, 1, 8, 8, 1, 8, false, false}, ProductKey{1, 1, 6, 1, 8, 8, 1, 8, false, false},
        ProductKey{6, 1, 1, 8, 1, 1, 8, 8, true, false}}) {
    product(key)->run(0, stream(0), dst, zeros, zeros, zeros);
  }
}

void OnednnProducts::FreeAligned::operator()(void* block) const noexcept { std::free(block); }

const Product* OnednnProducts::product(const ProductKey& key) {
  const int threads = static_cast<int>(streams_.size());
  const auto [place, added] = products_.try_emplace(key, key, threads, engine_.get());
  Product& product = place->second;
  if (!added) return &product;
  if (product.scratch_bytes() > scratch_bytes_) {
    grow_scratch(product.scratch_bytes());
  } else {
    for (int thread = 0; thread < threads; ++thread) {
      product.set_scratch(thread, scratch_[static_cast<std::size_t>(thread)].get(), stream(thread));
    }
  }
  return &product;
}

void OnednnProducts::grow_scratch(std::size_t bytes) {
  scratch_bytes_ = (bytes + 4095) / 4096 * 4096;
  for (std::size_t thread = 0; thread < streams_.size(); ++thread) {
    scratch_[thread].reset(std::aligned_alloc(4096, scratch_bytes_));
    if (scratch_[thread] == nullptr) throw std::bad_alloc();
    for (auto& [key, product] : products_) {
      product.set_scratch(static_cast<int>(thread), scratch_[thread].get(), streams_[thread].get());
    }
  }
}

std::unique_ptr<GemmLibrary> onednn_products(Isa isa, int threads) {
  // Only before the first primitive of the process.
  static const Isa first = isa;
  static const bool is_limited =
      dnnl_set_max_cpu_isa(isa >= Isa::kAvx512 ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx2) == dnnl_success;
  if (!is_limited || isa != first)
    throw std::runtime_error("oneDNN was initialised before it was limited to " + std::string(isa_name(isa)));
  return std::make_unique<OnednnProducts>(threads);
}

std::string onednn_version() {
  const dnnl_version_t* const v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace bascule
