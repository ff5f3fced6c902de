// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/onednn_bf16.h"

#if defined(BASCULE_HAS_ONEDNN)

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>

namespace bascule {
namespace {

using dnnl::memory;

class Matmul final : public OnednnBf16 {
 public:
  explicit Matmul(const GemmSpec& spec) : spec_(spec), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const bool weight = spec.kind == GemmKind::kWeightGradient, forward = spec.kind == GemmKind::kForward;
    const std::int64_t m = weight ? spec.n : spec.max_rows, n = weight ? spec.k : spec.n;
    const std::int64_t depth = weight ? spec.max_rows : spec.k;
    const auto bf16 = memory::data_type::bf16;
    const memory::desc a({m, depth}, bf16, weight ? memory::dims{1, spec.lda} : memory::dims{spec.lda, 1});
    const memory::desc b({depth, n}, bf16, forward ? memory::dims{1, spec.ldb} : memory::dims{spec.ldb, 1});
    const memory::desc c({m, n}, memory::data_type::f32, {spec.ldc, 1});
    const memory::desc bias({1, n}, memory::data_type::f32, {n, 1});
    const dnnl::matmul::desc operation = spec.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(operation, engine_);
    is_reference_ = std::string(chosen.impl_info_str()).find("ref") != std::string::npos;
    primitive_ = dnnl::matmul(chosen);
    a_ = memory(a, engine_, nullptr);
    b_ = memory(b, engine_, nullptr);
    c_ = memory(c, engine_, nullptr);
    bias_ = memory(bias, engine_, nullptr);
  }

  bool is_reference() const { return is_reference_; }

  void run(const GemmRun& run) const override {
    a_.set_data_handle(const_cast<void*>(run.a.data));
    b_.set_data_handle(const_cast<void*>(run.b.data));
    c_.set_data_handle(run.c.data);
    bias_.set_data_handle(const_cast<float*>(run.bias));
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
    if (spec_.bias) arguments.insert({DNNL_ARG_BIAS, bias_});
    primitive_.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  GemmSpec spec_;
  bool is_reference_ = false;
  dnnl::engine engine_;
  mutable dnnl::stream stream_;
  dnnl::matmul primitive_;
  mutable memory a_, b_, c_, bias_;
};

}  // namespace

std::unique_ptr<OnednnBf16> OnednnBf16::make(const GemmSpec& spec, Isa isa) {
  dnnl::set_max_cpu_isa(isa == Isa::kAvx512Bf16 ? dnnl::cpu_isa::avx512_core_bf16
                        : isa == Isa::kAvx512   ? dnnl::cpu_isa::avx512_core
                                                : dnnl::cpu_isa::avx2);
  omp_set_num_threads(1);
  try {
    auto product = std::make_unique<Matmul>(spec);
    return product->is_reference() ? nullptr : std::move(product);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace bascule

#else

namespace bascule {
std::unique_ptr<OnednnBf16> OnednnBf16::make(const GemmSpec&, Isa) { return nullptr; }
}  // namespace bascule

#endif
