// SPDX-License-Identifier: Apache-2.0
// How fast attention's forward kernel is at the sizes of Stable Diffusion, beside a matrix product of ours that runs in
// turn with it.
//
//   bench_attention [--isa NAME] [--threads N] [--repeats N] [WORD]     problems whose text contains WORD
//
// Tasks are cut as the operation of a graph cuts them. One thread is measured by its CPU time, several by wall time;
// medians, of the ratio too. Operations counted: the two products, without padding and without exp.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/table.h"
#include "src/runtime/threads.h"
#include "tests/support/bench_time.h"
#include "tests/support/own_products.h"

namespace bascule {
namespace {

struct Problem {
  const char* where;
  std::int64_t queries, keys, head_size, heads;
};
// Self-attention at 512 x 512 pixels by level, cross-attention, the decoder's one head; the last at 768 x 768.
constexpr Problem kProblems[] = {
    {"self", 4096, 4096, 40, 8},  {"self", 1024, 1024, 80, 8}, {"self", 256, 256, 160, 8},
    {"cross", 4096, 77, 40, 8},   {"cross", 1024, 77, 80, 8},  {"self", 4096, 4096, 64, 5},
    {"self", 1024, 1024, 64, 10}, {"vae", 4096, 4096, 512, 1}, {"self", 9216, 9216, 40, 8}};

constexpr std::int64_t kProductRows = 4096, kProductCols = 768, kProductDepth = 768;

struct Free {
  void operator()(float* block) const { std::free(block); }
};
using Floats = std::unique_ptr<float, Free>;

// Random numbers in [-1, 1), in pages aligned as an arena's.
Floats floats(std::int64_t count) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + kPage - 1) / kPage * kPage;
  Floats memory(static_cast<float*>(std::aligned_alloc(kPage, bytes)));
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) {
    state = state * 1664525u + 1013904223u;
    memory.get()[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return memory;
}

// Heads are column slices of one matrix, as in a model.
struct Attention {
  const KernelTable& kernels;
  Problem problem;
  Floats out, query, key, value, logsumexp, scratch;
  std::int64_t scratch_each;

  Attention(const BenchArguments& arguments, const Problem& p)
      : kernels(kernels_for(arguments.isa)),
        problem(p),
        out(floats(p.queries * p.heads * p.head_size)),
        query(floats(p.queries * p.heads * p.head_size)),
        key(floats(p.keys * p.heads * p.head_size)),
        value(floats(p.keys * p.heads * p.head_size)),
        logsumexp(floats(p.queries * p.heads)),
        scratch_each((attention_forward_scratch_floats(p.keys, p.head_size) + 1023) / 1024 * 1024) {
    scratch = floats(scratch_each * arguments.threads);
  }

  std::int64_t group_rows() const { return problem.heads > 1 ? kAttentionQueryGroup : kAttentionQueryGroup / 2; }
  std::int64_t groups() const { return (problem.queries + group_rows() - 1) / group_rows(); }
  static std::int64_t tasks(const void* attention, const Replay&) {
    const Attention& self = *static_cast<const Attention*>(attention);
    return self.problem.heads * self.groups();
  }
  static void run_task(const void* attention, const Replay&, std::int64_t task, int thread) {
    const Attention& self = *static_cast<const Attention*>(attention);
    const Problem& p = self.problem;
    const std::int64_t head = task / self.groups(), first = task % self.groups() * self.group_rows();
    AttentionForward a{};
    a.out_stride = a.query_stride = a.key_stride = a.value_stride = p.heads * p.head_size;
    a.out = self.out.get() + first * a.out_stride + head * p.head_size;
    a.query = self.query.get() + first * a.query_stride + head * p.head_size;
    a.key = self.key.get() + head * p.head_size;
    a.value = self.value.get() + head * p.head_size;
    a.logsumexp = self.logsumexp.get() + head * p.queries + first;
    a.query_rows = std::min(self.group_rows(), p.queries - first);
    a.key_rows = p.keys;
    a.head_size = p.head_size;
    a.scale = 0.3f;
    a.scratch = self.scratch.get() + thread * self.scratch_each;
    self.kernels.attention_forward(a);
  }
};

struct Product {
  std::unique_ptr<Gemm> gemm;
  GemmRun run;

  static std::int64_t tasks(const void* product, const Replay&) {
    const Product& p = *static_cast<const Product*>(product);
    return p.gemm->tasks(p.run.rows);
  }
  static void run_task(const void* product, const Replay&, std::int64_t task, int thread) {
    const Product& p = *static_cast<const Product*>(product);
    p.gemm->run(task, thread, p.run);
  }
};

class Bench {
 public:
  explicit Bench(const BenchArguments& arguments)
      : arguments_(arguments), threads_(arguments.threads, false), own_(arguments.threads, arguments.isa) {}

  void measure(const Problem& p) {
    const std::string text = std::string(p.where) + " queries=" + std::to_string(p.queries) +
                             " keys=" + std::to_string(p.keys) + " d=" + std::to_string(p.head_size) +
                             " heads=" + std::to_string(p.heads);
    if (text.find(arguments_.word) == std::string::npos) return;
    const Attention attention(arguments_, p);
    const Floats a = floats(kProductRows * kProductDepth), b = floats(kProductCols * kProductDepth),
                 c = floats(kProductRows * kProductCols);
    const GemmSpec spec{GemmKind::kForward, kProductRows, kProductCols, kProductDepth, kProductDepth,     kProductDepth,
                        kProductCols,       false,        true,         false,         GemmType::kFloat32};
    const Product product{own_.make(spec), {c.get(), a.get(), b.get(), nullptr, kProductRows, false}};
    const double work = 4.0 * static_cast<double>(p.queries * p.keys * p.head_size * p.heads);
    const double product_work = 2.0 * static_cast<double>(kProductRows * kProductCols * kProductDepth);
    std::vector<double> rates, product_rates, ratios;
    for (int i = -1; i < (arguments_.repeats > 0 ? arguments_.repeats : 9); ++i) {
      const double rate = rate_of({Attention::run_task, Attention::tasks, &attention, 0}, work);
      const double plain = rate_of({Product::run_task, Product::tasks, &product, 0}, product_work);
      if (i < 0) continue;  // warm-up
      rates.push_back(rate);
      product_rates.push_back(plain);
      ratios.push_back(rate / plain);
    }
    std::printf("%-46s %7.1f GFLOP/s  product %7.1f  ratio %.3f\n", text.c_str(), median(rates), median(product_rates),
                median(ratios));
    std::fflush(stdout);
  }

 private:
  // GFLOP/s of enough replays to be measured well.
  double rate_of(const Step& step, double work) {
    const int calls = std::max(1, static_cast<int>(2e9 / work));
    const double began = seconds_of(arguments_.threads == 1);
    for (int call = 0; call < calls; ++call) threads_.replay(Span<const Step>(&step, 1), Replay{}, {});
    return work * calls / (seconds_of(arguments_.threads == 1) - began) * 1e-9;
  }

  BenchArguments arguments_;
  Threads threads_;
  test::OwnProducts own_;
};

}  // namespace
}  // namespace bascule

int main(int count, char** words) {
  bascule::Bench bench({count, words});
  for (const bascule::Problem& problem : bascule::kProblems) bench.measure(problem);
}
