// SPDX-License-Identifier: Apache-2.0
// How fast convolutions and group normalisations of Stable Diffusion are; not a test.
//
//   bench_convolution [--threads N] [--repeats N] [WORD]      shapes whose text contains WORD
//
// Beside each convolution stands linear() of the same depth and width on as many rows, or fewer where they would not
// fit: in turn, so that other load meets both. A rate counts nine taps, also where a doubled picture needs fewer. One
// thread is measured in time of the thread, more in wall time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "tests/graph/graph_run.h"
#include "tests/support/bench_time.h"

namespace bascule::test {
namespace {

struct Shape {
  std::int64_t samples;
  ConvolutionShape convolution;
  std::int64_t in, out;
};

// At 512 x 512, with and without guidance; and the decoder.
const Shape kShapes[] = {{2, {64, 64}, 4, 320},
                         {2, {64, 64}, 320, 320},
                         {2, {64, 64}, 960, 320},
                         {2, {64, 64, 2}, 320, 320},
                         {2, {32, 32}, 640, 640},
                         {2, {32, 32}, 1920, 640},
                         {2, {32, 32, 1, 64, 64}, 640, 640},
                         {2, {16, 16}, 1280, 1280},
                         {2, {16, 16}, 2560, 1280},
                         {2, {8, 8}, 1280, 1280},
                         {2, {8, 8}, 2560, 1280},
                         {1, {8, 8}, 1280, 1280},
                         {2, {64, 64}, 320, 4},
                         {1, {64, 64}, 512, 512},
                         {1, {256, 256}, 256, 256},
                         {1, {512, 512}, 128, 128},
                         {1, {256, 256, 1, 512, 512}, 256, 256},
                         {1, {512, 512}, 128, 3}};

struct NormShape {
  std::int64_t samples, pixels, channels;
};
const NormShape kNormShapes[] = {{2, 4096, 320}, {2, 1024, 640}, {2, 256, 1280},  {2, 256, 2560},
                                 {2, 64, 1280},  {1, 4096, 512}, {1, 65536, 256}, {1, 262144, 128}};

class Bench {
 public:
  explicit Bench(const BenchArguments& arguments) : arguments_(arguments), threads_(arguments.threads, false) {}

  void run(const Shape& s) {
    const ConvolutionShape& c = s.convolution;
    std::string text = "convolution " + std::to_string(s.samples) + " x " + std::to_string(c.height) + " x " +
                       std::to_string(c.width) + " " + std::to_string(s.in) + " -> " + std::to_string(s.out);
    if (c.stride > 1) text += " stride 2";
    if (c.enlarged_height > 0) text += " enlarged";
    if (text.find(arguments_.word) == std::string::npos) return;
    GraphRun windows(counts_of(s.samples, 1, 1), arguments_.threads);
    const Tensor weight = windows.parameter("w", s.out, 9 * s.in, false),
                 bias = windows.parameter("b", 1, s.out, false);
    const Tensor y = convolution(windows.graph(), "y", windows.input("x", rows_per_sample(c.height * c.width), s.in),
                                 weight, bias, c);
    windows.graph().keep(y);
    const std::int64_t rows = windows.graph().max_rows(y);
    windows.seal(kernels_for(best_isa()));
    constexpr std::int64_t kMostElements = 32 << 20;
    const std::int64_t few = std::min(rows, kMostElements / (9 * s.in));
    GraphRun plain(counts_of(few, 1, 1), arguments_.threads);
    plain.graph().keep(linear(plain.graph(), "y", plain.input("x", rows_per_sample(1), 9 * s.in),
                              plain.parameter("w", s.out, 9 * s.in, false), plain.parameter("b", 1, s.out, false)));
    plain.seal(kernels_for(best_isa()));
    const double flops = 18.0 * static_cast<double>(s.in) * static_cast<double>(s.out);
    std::vector<double> ours, products, ratios;
    const int repeats = arguments_.repeats > 0
                            ? arguments_.repeats
                            : std::clamp(static_cast<int>(2e11 / (flops * static_cast<double>(rows))), 3, 21);
    for (int i = -1; i < repeats; ++i) {
      const double a = flops * static_cast<double>(rows) / time_of(windows, s.samples);
      const double b = flops * static_cast<double>(few) / time_of(plain, few);
      if (i < 0) continue;
      ours.push_back(a);
      products.push_back(b);
      ratios.push_back(a / b);
    }
    std::printf("%-58s %7.1f GFLOP/s  product %7.1f  ratio %.3f\n", text.c_str(), median(ours) * 1e-9,
                median(products) * 1e-9, median(ratios));
    std::fflush(stdout);
  }

  void run(const NormShape& s) {
    const std::string text = "group_norm " + std::to_string(s.samples) + " x " + std::to_string(s.pixels) + " x " +
                             std::to_string(s.channels);
    if (text.find(arguments_.word) == std::string::npos) return;
    for (const bool silu : {false, true}) {
      GraphRun run(counts_of(s.samples, 1, 1), arguments_.threads);
      const Tensor x = run.input("x", rows_per_sample(s.pixels), s.channels);
      run.graph().keep(x);
      run.graph().keep(group_norm(run.graph(), "y", x, run.parameter("w", 1, s.channels, false),
                                  run.parameter("b", 1, s.channels, false), 32, 1e-5f, silu));
      run.seal(kernels_for(best_isa()));
      std::vector<double> times;
      for (int i = -1; i < std::max(arguments_.repeats, 9); ++i) {
        const double time = time_of(run, s.samples);
        if (i >= 0) times.push_back(time);
      }
      std::printf("%-58s %7.3f ms  %5.1f GB/s\n", (text + (silu ? " silu" : "")).c_str(), median(times) * 1e3,
                  8e-9 * static_cast<double>(s.samples * s.pixels * s.channels) / median(times));
      std::fflush(stdout);
    }
  }

 private:
  double time_of(GraphRun& run, std::int64_t samples) {
    Replay replay;
    replay.batch.counts[kSamples] = samples;
    const double began = seconds_of(arguments_.threads == 1);
    run.tape().replay(threads_, replay);
    return seconds_of(arguments_.threads == 1) - began;
  }

  BenchArguments arguments_;
  Threads threads_;
};

}  // namespace
}  // namespace bascule::test

int main(int count, char** words) {
  bascule::test::Bench bench({count, words});
  for (const bascule::test::Shape& shape : bascule::test::kShapes) bench.run(shape);
  for (const bascule::test::NormShape& shape : bascule::test::kNormShapes) bench.run(shape);
}
