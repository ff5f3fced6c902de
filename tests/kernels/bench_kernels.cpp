// SPDX-License-Identifier: Apache-2.0
// How fast each kernel is on one core, beside this machine's copy speed: one JSON line per problem.
//
//   bench_kernels [WORD]          problems whose text contains WORD, such as "layer_norm" or "isa=avx512"
//
// Warm: the same arrays again and again, so that problems smaller than the caches show the arithmetic, larger ones the
// memory. `bytes` are those that must move (arrays read and written once; no write-allocate). `copy_gb_per_s` is that
// of a plain copy of as many bytes, measured just before; `of_copy` the share of it. 15 runs after 2 for warmth; median
// and minimum.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/table.h"

namespace bascule {
namespace {

using Kernel = std::function<void(const KernelTable&)>;

struct Timing {
  double median_ns, min_ns;
};

Timing time_of(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> ns;
  for (int i = 0; i < 17; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    const double elapsed = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    if (i >= 2) ns.push_back(elapsed);
  }
  std::sort(ns.begin(), ns.end());
  return {ns[ns.size() / 2], ns[0]};
}

// Memory that the kernels work on: pieces of one vector, 64-byte aligned as those of an arena are.
class Pool {
 public:
  explicit Pool(std::size_t floats) : memory_(floats) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<float>(i % 1009) * 0.004f - 2.0f;
  }
  float* take(std::int64_t count) {
    float* const first = memory_.data() + next_;
    next_ += (static_cast<std::size_t>(count) + 15) / 16 * 16;
    if (next_ > memory_.size()) std::abort();
    return first;
  }
  void restart() { next_ = to_alignment(memory_.data()); }

 private:
  // Floats from here to the next multiple of 64 bytes.
  static std::size_t to_alignment(const float* p) {
    return (64 - reinterpret_cast<std::uintptr_t>(p) % 64) % 64 / sizeof(float);
  }

  std::vector<float> memory_;
  std::size_t next_ = 0;
};

class Bench {
 public:
  explicit Bench(std::string word) : word_(std::move(word)), copy_(std::size_t{1} << 27, 1) {}

  // `bytes` moved by one call.
  void run(const std::string& problem, double bytes, const Kernel& kernel) {
    for (const Isa isa : kAllIsas) {
      const std::string text = problem + " isa=" + isa_name(isa) + " threads=1";
      if (!isa_supported(isa) || text.find(word_) == std::string::npos) continue;
      const KernelTable& kernels = kernels_for(isa);
      const double copy = copy_gb_per_s(bytes);
      const Timing t = time_of([&] { kernel(kernels); });
      std::printf(
          "{\"problem\": \"%s\", \"median_ns\": %.0f, \"min_ns\": %.0f, \"gb_per_s\": %.1f, "
          "\"copy_gb_per_s\": %.1f, \"of_copy\": %.2f}\n",
          text.c_str(), t.median_ns, t.min_ns, bytes / t.median_ns, copy, bytes / t.median_ns / copy);
      std::fflush(stdout);
    }
  }

 private:
  double copy_gb_per_s(double bytes) {
    const std::size_t half = std::min(static_cast<std::size_t>(bytes / 2), copy_.size() / 2);
    const Timing t = time_of([&] { std::memcpy(copy_.data() + copy_.size() / 2, copy_.data(), half); });
    return 2.0 * static_cast<double>(half) / t.median_ns;
  }

  std::string word_;
  std::vector<char> copy_;
};

DropoutStream tenth() {
  DropoutStream stream;
  stream.threshold = 429496730;
  stream.scale = 1.0f / 0.9f;
  return stream;
}

std::string shape(std::int64_t R, std::int64_t C) { return " R=" + std::to_string(R) + " C=" + std::to_string(C); }

void layer_norms(Bench& bench, Pool& pool, std::int64_t R, std::int64_t C) {
  pool.restart();
  const double row_bytes = 4.0 * static_cast<double>(R * C);
  const std::vector<std::uint64_t> keys(static_cast<std::size_t>(R), 77);
  float *y = pool.take(R * C), *sum = pool.take(R * C), *x = pool.take(R * C), *h = pool.take(R * C);
  float *mean = pool.take(R), *rstd = pool.take(R), *gamma = pool.take(C), *beta = pool.take(C);
  float *d_gamma = pool.take(C), *d_beta = pool.take(C), *d_x = pool.take(R * C), *d_h = pool.take(R * C);
  LayerNormForward a{y, nullptr, mean, rstd, x, nullptr, gamma, beta, keys.data(), R, C, 1e-5f, {}};
  bench.run("layer_norm_forward" + shape(R, C), 2 * row_bytes, [&](const KernelTable& k) { k.layer_norm_forward(a); });
  LayerNormForward joined = a;
  joined.sum = sum;
  joined.h = h;
  bench.run("layer_norm_forward" + shape(R, C) + " residual=1", 4 * row_bytes,
            [&](const KernelTable& k) { k.layer_norm_forward(joined); });
  joined.dropout = tenth();
  bench.run("layer_norm_forward" + shape(R, C) + " residual=1 p=0.1", 4 * row_bytes,
            [&](const KernelTable& k) { k.layer_norm_forward(joined); });
  LayerNormBackward b{d_x, nullptr, d_gamma, d_beta, nullptr, y, x, mean, rstd, gamma, keys.data(), R, C, {}, false};
  bench.run("layer_norm_backward" + shape(R, C), 3 * row_bytes,
            [&](const KernelTable& k) { k.layer_norm_backward(b); });
  b.d_sum = sum;
  b.d_h = d_h;
  b.dropout = tenth();
  bench.run("layer_norm_backward" + shape(R, C) + " residual=1 p=0.1", 5 * row_bytes,
            [&](const KernelTable& k) { k.layer_norm_backward(b); });
}

void activations(Bench& bench, Pool& pool, std::int64_t R, std::int64_t C) {
  pool.restart();
  const double row_bytes = 4.0 * static_cast<double>(R * C);
  float *y = pool.take(R * C), *x = pool.take(R * C), *d_y = pool.take(R * C), *part = pool.take(C);
  struct Named {
    const char* name;
    Activation kind;
  };
  for (const Named& n : {Named{"gelu", Activation::kGelu}, Named{"quick_gelu", Activation::kQuickGelu},
                         Named{"gelu_tanh", Activation::kGeluTanh}, Named{"tanh", Activation::kTanh}}) {
    const std::string text = shape(R, C) + " kind=" + n.name;
    bench.run("activation_forward" + text, 2 * row_bytes, [&](const KernelTable& k) {
      k.activation_forward({y, x, R * C, n.kind});
    });
    bench.run("activation_backward" + text, 3 * row_bytes, [&](const KernelTable& k) {
      k.activation_backward({y, part, d_y, x, R, C, n.kind, false});
    });
  }
}

void row_passes(Bench& bench, Pool& pool, std::int64_t R, std::int64_t C) {
  pool.restart();
  const double row_bytes = 4.0 * static_cast<double>(R * C);
  const std::vector<std::uint64_t> keys(static_cast<std::size_t>(R), 77);
  std::vector<std::int32_t> index(static_cast<std::size_t>(R));
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int32_t>(i * 7919 % index.size());
  float *a = pool.take(R * C), *b = pool.take(R * C), *c = pool.take(R * C), *part = pool.take(C);
  float *d = pool.take(R * C), *e = pool.take(R * C);
  double squares;
  bench.run("fill" + shape(R, C), row_bytes, [&](const KernelTable& k) { k.fill({a, R * C, 0.0f}); });
  bench.run("add" + shape(R, C), 3 * row_bytes, [&](const KernelTable& k) { k.add({a, b, c, R * C}); });
  bench.run("column_sums" + shape(R, C), row_bytes, [&](const KernelTable& k) { k.column_sums({part, b, R, C, C}); });
  bench.run("sum_of_squares" + shape(R, C), row_bytes, [&](const KernelTable& k) {
    k.sum_of_squares({&squares, b, R * C});
  });
  bench.run("dropout_forward" + shape(R, C), 2 * row_bytes, [&](const KernelTable& k) {
    k.dropout_forward({a, b, keys.data(), R, C, tenth()});
  });
  bench.run("embedding_backward" + shape(R, C), 3 * row_bytes, [&](const KernelTable& k) {
    k.embedding_backward({a, b, index.data(), R, C, 0, C, -1});
  });
  bench.run("text_embedding_forward" + shape(R, C), 3 * row_bytes, [&](const KernelTable& k) {
    k.text_embedding_forward({a, b, c, part, index.data(), index.data(), nullptr, R, C});
  });
  bench.run("blend_backward" + shape(R, C), 5 * row_bytes, [&](const KernelTable& k) {
    k.blend_backward({d, e, part, part + 1, a, b, c, R * C, 0.7f, 0.3f, false, false});
  });
  bench.run("normalize_forward" + shape(R, C), 2 * row_bytes, [&](const KernelTable& k) {
    k.normalize_forward({a, d, b, R, C});
  });
}

void update(Bench& bench, Pool& pool, std::int64_t count) {
  pool.restart();
  float *p = pool.take(count), *m = pool.take(count), *v = pool.take(count), *g = pool.take(count);
  std::fill(v, v + count, 1e-3f);
  const AdamW a{p, m, v, g, count, 1.0f, 1.0f, 0.1f, 0.999f, 0.001f, 1e-5f, 1.0f, 1e-8f};
  bench.run("adamw N=" + std::to_string(count), 28.0 * static_cast<double>(count),
            [&](const KernelTable& k) { k.adamw(a); });
}

void cross_entropy(Bench& bench, Pool& pool, std::int64_t R, std::int64_t V) {
  pool.restart();
  const double row_bytes = 4.0 * static_cast<double>(R * V);
  float *logits = pool.take(R * V), *d = pool.take(R * V), *loss = pool.take(R), *tops = pool.take(R);
  float* others = pool.take(R);
  const std::vector<std::int32_t> label(static_cast<std::size_t>(R), 5);
  std::vector<std::int32_t> hit(static_cast<std::size_t>(R));
  bench.run("cross_entropy_forward" + shape(R, V), row_bytes, [&](const KernelTable& k) {
    k.cross_entropy_forward({loss, tops, others, hit.data(), logits, label.data(), R, V, 0.0f});
  });
  bench.run("cross_entropy_backward" + shape(R, V), 2 * row_bytes, [&](const KernelTable& k) {
    k.cross_entropy_backward({d, logits, tops, others, label.data(), R, V, 0.1f, 0.0f});
  });
}

void contrastive(Bench& bench, Pool& pool, std::int64_t B, std::int64_t E) {
  pool.restart();
  float *a = pool.take(B * E), *b = pool.take(B * E), *w = pool.take(B * B), *out = pool.take(B * E);
  float *loss = pool.take(B), *slope = pool.take(B);
  const double bytes = 4.0 * static_cast<double>(2 * B * E + B * B);
  const std::string text = " B=" + std::to_string(B) + " E=" + std::to_string(E);
  bench.run("contrastive_forward" + text, bytes, [&](const KernelTable& k) {
    k.contrastive_forward({loss, slope, w, a, b, B, B, E, 0, 14.0f});
  });
  bench.run("weighted_row_sum" + text, bytes, [&](const KernelTable& k) {
    k.weighted_row_sum({out, w, b, B, B, E, B, 1, 1.0f, false});
  });
}

void patches(Bench& bench, Pool& pool, std::int64_t S, std::int64_t P) {
  pool.restart();
  float *pixels = pool.take(3 * S * S), *out = pool.take(3 * S * S);
  bench.run("extract_patches S=" + std::to_string(S) + " P=" + std::to_string(P), 24.0 * static_cast<double>(S * S),
            [&](const KernelTable& k) {
              k.extract_patches({out, pixels, 3, S, S, P});
            });
}

void run_all(Bench& bench) {
  Pool pool(std::size_t{48} << 20);
  struct Size {
    std::int64_t rows, width, feed_forward;
  };
  for (const Size& s : {Size{2600, 768, 3072}, Size{1088, 128, 512}}) {
    layer_norms(bench, pool, s.rows, s.width);
    activations(bench, pool, s.rows, s.feed_forward);
    row_passes(bench, pool, s.rows, s.width);
  }
  update(bench, pool, 8 << 20);
  update(bench, pool, 1 << 18);
  cross_entropy(bench, pool, 64, 50265);
  cross_entropy(bench, pool, 200, 1000);
  contrastive(bench, pool, 48, 512);
  contrastive(bench, pool, 320, 512);
  patches(bench, pool, 288, 16);
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  cpu_set_t one;
  CPU_ZERO(&one);
  const int cpu = sched_getcpu();
  if (cpu >= 0) CPU_SET(static_cast<unsigned>(cpu), &one);
  sched_setaffinity(0, sizeof one, &one);
  bascule::Bench bench(argc > 1 ? argv[1] : "");
  bascule::run_all(bench);
  return 0;
}
