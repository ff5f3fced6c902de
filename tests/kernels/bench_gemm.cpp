// SPDX-License-Identifier: Apache-2.0
// How fast our matrix products are, shape by shape: GFLOP/s, their share of what the registers of this CPU allow, and
// beside oneDNN's, run in turn with ours.
//
//   bench_gemm [--isa NAME] [--threads N] [--bf16 | --tiles] [--repeats N] [WORD]     shapes whose text contains WORD
//
// A shape's weight is how often a step of its model computes it; the last lines of a model are the weighted ratio of
// all its time, and the geometric mean over the shapes that take more than 1 % of it. One thread is measured by its CPU
// time, several by wall time; medians. oneDNN's bf16 products are measured whole, in the layouts that ours have, on one
// thread. --tiles: bf16 whose sums are those of tiles, which --isa amx has.
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "src/runtime/threads.h"
#include "tests/kernels/lanes_probe.h"
#include "tests/kernels/onednn_bf16.h"
#include "tests/support/bench_time.h"
#include "tests/support/own_products.h"

namespace bascule {

#define BASCULE_COMPILED_ONLY
#define BASCULE_INSTRUCTION_SET(enumerator, name) \
  namespace name {                                \
  extern const LanesProbe kLanesProbe;            \
  }
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET

namespace {

struct Shape {
  const char* model;
  std::int64_t rows, n, k;
  double count;  // in a step
};

// Batch 8 of base, 4 of large, 64 of the demo; text of 20 tokens a sample. Vision tower and cross-modal layers, text
// tower and cross-modal layers; one row a sample in the last cross-modal layer. ViT-B/16 at batch 32, BERT-base at 16 x
// 128.
constexpr Shape kShapes[] = {
    {"base", 2600, 768, 768, 60},    {"base", 2600, 2304, 768, 12},   {"base", 2600, 3072, 768, 18},
    {"base", 2600, 768, 3072, 18},   {"base", 160, 768, 768, 96},     {"base", 160, 3072, 768, 18},
    {"base", 160, 768, 3072, 18},    {"base", 8, 768, 768, 4},        {"large", 1768, 1024, 1024, 84},
    {"large", 1768, 3072, 1024, 24}, {"large", 1768, 4096, 1024, 30}, {"large", 1768, 1024, 4096, 30},
    {"large", 80, 1024, 1024, 144},  {"large", 80, 4096, 1024, 30},   {"large", 80, 1024, 4096, 30},
    {"large", 1, 1024, 1024, 4},     {"demo", 1088, 128, 128, 30},    {"demo", 1088, 512, 128, 6},
    {"demo", 1088, 128, 512, 6},     {"demo", 770, 128, 128, 30},     {"demo", 770, 512, 128, 6},
    {"demo", 770, 128, 512, 6},      {"vit", 6304, 768, 768, 48},     {"vit", 6304, 3072, 768, 12},
    {"vit", 6304, 768, 3072, 12},    {"bert", 2048, 768, 768, 48},    {"bert", 2048, 3072, 768, 12},
    {"bert", 2048, 768, 3072, 12},   {"bert", 308, 30522, 768, 1},
};
constexpr const char* kKinds[] = {"forward", "input gradient", "weight gradient"};

struct Arguments : BenchArguments {
  bool bf16 = false, tiles = false;

  Arguments(int count, char** words) : BenchArguments(count, words) {
    for (const std::string& option : others) {
      bf16 = bf16 || option == "--bf16" || option == "--tiles";
      tiles = tiles || option == "--tiles";
    }
  }
};

// A product as one step of a tape, whose tasks the threads share.
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

#if defined(__x86_64__)
// Four products of tiles that do not wait for each other, which is as fast as tiles are.
[[gnu::target("amx-tile,amx-bf16")]] void multiply_tiles(std::int64_t steps) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } configuration;
  asm volatile("" : : "r"(&configuration) : "memory");
  _tile_loadconfig(&configuration);
  for (std::int64_t i = 0; i < steps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}
#else
void multiply_tiles(std::int64_t) {}
#endif

double peak_of_tiles() {
  constexpr std::int64_t kSteps = 200'000;
  double best = 0.0;
  for (int i = 0; i < 7; ++i) {
    const double began = seconds_of(true);
    multiply_tiles(kSteps);
    best = std::max(best, 4.0 * 16384.0 * kSteps / (seconds_of(true) - began) * 1e-9);
  }
  return best;
}

double peak_gflops(const Arguments& arguments) {
  if (arguments.isa == Isa::kAmx && arguments.tiles) return peak_of_tiles();
  static constexpr const LanesProbe* kProbes[] = {
#define BASCULE_INSTRUCTION_SET(enumerator, name) &name::kLanesProbe,
#include "kernels/isas.inc"
#undef BASCULE_INSTRUCTION_SET
  };
  const LanesProbe& probe = *kProbes[static_cast<int>(set_of_all_kernels(arguments.isa))];
  constexpr std::int64_t kSteps = 2'000'000;
  double best = 0.0;
  for (int i = 0; i < 7; ++i) {
    const double began = seconds_of(true);
    const float sum = (arguments.bf16 ? probe.dot_products : probe.multiply_adds)(kSteps);
    const double seconds = seconds_of(true) - began;
    const double flops = static_cast<double>(kSteps * kProbeChains * 16 * (arguments.bf16 ? 4 : 2));
    if (sum >= 0.0f) best = std::max(best, flops / seconds * 1e-9);
  }
  return best;
}

class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments),
        threads_(arguments.threads, false),
        own_(arguments.threads, arguments.isa, arguments.tiles ? Bf16Law::kTiles : Bf16Law::kPairs) {
    if (!arguments.bf16 && arguments.isa != Isa::kScalar) onednn_ = onednn_products(arguments.isa, arguments.threads);
    peak_ = peak_gflops(arguments) * arguments.threads;
    std::printf("%s, %d threads, %s: %.1f GFLOP/s at most\n", isa_name(arguments.isa), arguments.threads,
                arguments.tiles  ? "bf16, tiles"
                : arguments.bf16 ? "bf16"
                                 : "float32",
                peak_);
  }

  void run(const Shape& shape) {
    for (int kind = 0; kind < 3; ++kind) {
      const std::string text = std::string(shape.model) + " " + kKinds[kind] + " R=" + std::to_string(shape.rows) +
                               " n=" + std::to_string(shape.n) + " k=" + std::to_string(shape.k);
      if (text.find(arguments_.word) != std::string::npos) measure(shape, static_cast<GemmKind>(kind), text);
    }
  }

  void summarise(const char* model) {
    double own = 0.0, library = 0.0, logarithms = 0.0;
    int large = 0;
    for (const Sum& sum : sums_) {
      own += sum.own;
      library += sum.library;
    }
    for (const Sum& sum : sums_) {
      if (sum.own <= 0.01 * own) continue;
      logarithms += std::log(sum.library / sum.own);
      ++large;
    }
    if (large > 0 && library > 0.0)
      std::printf("%s: %.3f of oneDNN's speed by time, %.3f in the geometric mean of %d shapes\n", model, library / own,
                  std::exp(logarithms / large), large);
    sums_.clear();
  }

 private:
  struct Sum {
    double own, library;  // seconds a step
  };

  double time_of(const std::function<void()>& work) const {
    const double began = seconds_of(arguments_.threads == 1);
    work();
    return seconds_of(arguments_.threads == 1) - began;
  }

  void measure(const Shape& shape, GemmKind kind, const std::string& text) {
    const bool weight = kind == GemmKind::kWeightGradient, input = kind == GemmKind::kInputGradient;
    // The input gradient of a layer (n, k) reads n columns and writes k.
    const std::int64_t n = input ? shape.k : shape.n, k = input ? shape.n : shape.k;
    const std::int64_t padded = (shape.rows + 15) / 16 * 16;
    const std::int64_t a_columns = weight ? n : k, b_rows = weight ? padded : input ? k : n, b_columns = input ? n : k;
    const std::int64_t c_rows = weight ? n : padded, c_columns = weight ? k : n;
    const std::size_t size = arguments_.bf16 ? 2 : 4;
    Memory a(static_cast<std::size_t>(padded * a_columns) * size),
        b(static_cast<std::size_t>(b_rows * b_columns) * size);
    Memory c(static_cast<std::size_t>(c_rows * c_columns) * 4), bias(static_cast<std::size_t>(n) * 4);
    const bool has_bias = kind == GemmKind::kForward;
    const GemmSpec spec{kind,
                        shape.rows,
                        n,
                        k,
                        a_columns,
                        b_columns,
                        c_columns,
                        has_bias,
                        true,
                        !has_bias,
                        arguments_.bf16 ? GemmType::kBf16 : GemmType::kFloat32};
    const ElementType type = arguments_.bf16 ? ElementType::kBf16 : ElementType::kFloat32;
    const GemmRun run{static_cast<float*>(c.data()),
                      ConstElements(a.data(), type),
                      ConstElements(b.data(), type),
                      has_bias ? static_cast<const float*>(bias.data()) : nullptr,
                      shape.rows,
                      false};
    const Product own{own_.make(spec), run};
    Product library{nullptr, run};
    std::unique_ptr<OnednnBf16> bf16;
    if (onednn_) library.gemm = onednn_->make(spec);
    if (arguments_.bf16 && arguments_.threads == 1)
      bf16 = OnednnBf16::make(spec, arguments_.isa == Isa::kAmx ? Isa::kAvx512Bf16 : arguments_.isa);
    const auto replay = [&](const Product& product) {
      const Step step{Product::run_task, Product::tasks, &product, 0};
      threads_.replay(Span<const Step>(&step, 1), Replay{}, {});
    };
    const double flops = 2.0 * static_cast<double>(shape.rows) * static_cast<double>(n) * static_cast<double>(k);
    const int calls = std::max(1, static_cast<int>(2e8 / flops));
    const int repeats = arguments_.repeats > 0 ? arguments_.repeats : std::clamp(static_cast<int>(3e10 / flops), 7, 31);
    std::vector<double> owns, libraries, ratios;
    for (int i = -1; i < repeats; ++i) {
      const double ours = time_of([&] {
                            for (int call = 0; call < calls; ++call) replay(own);
                          }) /
                          calls;
      double theirs = 0.0;
      if (library.gemm)
        theirs = time_of([&] {
                   for (int call = 0; call < calls; ++call) replay(library);
                 }) /
                 calls;
      if (bf16)
        theirs = time_of([&] {
                   for (int call = 0; call < calls; ++call) bf16->run(run);
                 }) /
                 calls;
      if (i < 0) continue;  // warm-up
      owns.push_back(ours);
      libraries.push_back(theirs);
      ratios.push_back(theirs / ours);
    }
    const double ours = median(owns), theirs = median(libraries);
    std::printf("%-52s %7.1f GFLOP/s  %.2f of the peak", text.c_str(), flops / ours * 1e-9,
                flops / ours * 1e-9 / peak_);
    if (theirs > 0.0) std::printf("  oneDNN %7.1f  ratio %.3f", flops / theirs * 1e-9, median(ratios));
    std::printf("\n");
    std::fflush(stdout);
    sums_.push_back({ours * shape.count, ours * median(ratios) * shape.count});
  }

  // Numbers in pages aligned as an arena's.
  class Memory {
   public:
    explicit Memory(std::size_t bytes) : floats_(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)) {
      std::memset(floats_.get(), 0, (bytes + kPage - 1) / kPage * kPage);
      for (std::size_t i = 0; i < bytes / 4; ++i)
        static_cast<float*>(floats_.get())[i] = static_cast<float>(i % 251) * 0.25f;
    }
    void* data() const { return floats_.get(); }

   private:
    static constexpr std::size_t kPage = std::size_t{2} << 20;
    struct Free {
      void operator()(void* block) const { std::free(block); }
    };
    std::unique_ptr<void, Free> floats_;
  };

  Arguments arguments_;
  Threads threads_;
  test::OwnProducts own_;
  std::unique_ptr<GemmLibrary> onednn_;
  double peak_ = 0.0;
  std::vector<Sum> sums_;
};

}  // namespace
}  // namespace bascule

int main(int count, char** words) {
  bascule::Bench bench({count, words});
  const char* model = bascule::kShapes[0].model;
  for (const bascule::Shape& shape : bascule::kShapes) {
    if (std::strcmp(model, shape.model) != 0) bench.summarise(model);
    model = shape.model;
    bench.run(shape);
  }
  bench.summarise(model);
}
