// SPDX-License-Identifier: Apache-2.0
// Items that compute as training does: matrix products, kernels, and the sum of the ranks' gradients.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "kernels/table.h"
#include "src/base/clock.h"
#include "src/bringup/kernel_problems.h"
#include "src/bringup/machine_limits.h"
#include "src/bringup/workbench.h"

namespace bascule {
namespace {

struct ProductType {
  GemmType type;
  const char* name;
  bool by_tiles;  // where the CPU has them
};
constexpr ProductType kTypes[] = {
    {GemmType::kFloat32, "float32", false}, {GemmType::kBf16, "bf16", false}, {GemmType::kBf16, "tiles", true}};

class ProductItem : public Item {
 public:
  explicit ProductItem(Workbench& bench)
      : bench_(bench), one_core_(bench.isa(), 1), all_cores_(bench.isa(), bench.core_count()) {
    const bool has_tiles = isa_supported(Isa::kAmx);
    if (has_tiles) {
      tiles_of_one_core_.emplace(Isa::kAmx, 1, Bf16Law::kTiles);
      tiles_of_all_cores_.emplace(Isa::kAmx, bench.core_count(), Bf16Law::kTiles);
    }
    const std::int64_t all_rows = std::clamp<std::int64_t>(64 * bench.core_count(), 1024, 8192);
    for (const auto& [type, type_name, by_tiles] : kTypes) {
      if (by_tiles && !has_tiles) continue;
      const ProductData* const one =
          add(by_tiles ? *tiles_of_one_core_ : one_core_, type, kOneCoreRows, kProductShapes[0]);
      for (const int core : bench.cores())
        probe(name_of(type_name, kProductShapes[0]), "GFLOP/s", core, [this, one] { return alone(*one); });
      for (const ProductShape& shape : kProductShapes) {
        const ProductData* const all = add(by_tiles ? *tiles_of_all_cores_ : all_cores_, type, all_rows, shape);
        probe(name_of(type_name, shape), "GFLOP/s", -1, [this, all] { return together(*all); });
      }
    }
  }

 private:
  static constexpr std::int64_t kOneCoreRows = 256;

  static std::string name_of(const char* type, const ProductShape& shape) {
    return std::string(type) + " " + std::to_string(shape.n) + " x " + std::to_string(shape.k);
  }
  const ProductData* add(OwnProducts& own, GemmType type, std::int64_t rows, const ProductShape& shape) {
    data_.push_back(std::make_unique<ProductData>(own.products(), GemmKind::kForward, type, rows, shape.n, shape.k));
    return data_.back().get();
  }

  double alone(const ProductData& product) {
    return rate_of(product, [&] {
      for (std::int64_t task = 0; task < product.tasks(); ++task) product.run(task, 0);
    });
  }
  double together(const ProductData& product) {
    return rate_of(product, [&] { product.run_on(bench_.threads()); });
  }
  // A first call brings the operands into the caches and wakes the cores; a step's products find both so.
  double rate_of(const ProductData& product, const std::function<void()>& run) {
    run();
    return product.flops() * 1e-9 / seconds_of(bench_, run);
  }

  Workbench& bench_;
  OwnProducts one_core_, all_cores_;  // products are cut for the threads that share them
  std::optional<OwnProducts> tiles_of_one_core_, tiles_of_all_cores_;
  std::vector<std::unique_ptr<ProductData>> data_;
};

// Each kernel on the first core, beside a copy of as many bytes there; all of them one after the other on every core.
class KernelItem : public Item {
 public:
  explicit KernelItem(Workbench& bench)
      : bench_(bench), kernels_(kernels_for(bench.isa())), problems_(sizes_for(bench)) {
    const int first = bench.cores().front();
    for (const KernelProblems::Group& group : problems_.groups()) {
      problems_.reset(group);
      for (const KernelProblem& problem : group.problems) {
        const std::size_t at = copies_.size();
        copies_.push_back(0.0);
        probe(problem.text, "GB/s", first, [this, &problem, at] { return one(problem, &copies_[at]); }).limit =
            [this, at] { return copies_[at]; };
      }
    }
    for (const int core : bench.cores())
      probe("all, in a smaller size", "passes/s", core, [this] { return all_small(); });
  }

 private:
  // As a model's, unless there is little memory to measure with.
  static KernelSizes sizes_for(const Workbench& bench) {
    return bench.memory_bytes() < (std::size_t{256} << 20) ? KernelSizes::small() : KernelSizes::base();
  }

  double one(const KernelProblem& problem, double* best_copy) {
    const double seconds = shortest([&] { problem.run(kernels_); });
    const std::size_t half =
        std::min(static_cast<std::size_t>(problem.bytes / 2.0), bench_.memory_bytes() / 2) / 64 * 64;
    const double copy =
        shortest([&] { std::memcpy(bench_.memory() + bench_.memory_bytes() / 2, bench_.memory(), half); });
    *best_copy = std::max(*best_copy, 2.0 * static_cast<double>(half) * 1e-9 / copy);
    return problem.bytes * 1e-9 / seconds;
  }

  // Warm: the shortest of a few calls.
  template <typename Work>
  static double shortest(const Work& work) {
    double seconds = 0.0;
    for (int i = 0; i < 3; ++i) {
      const double began = monotonic_seconds();
      work();
      const double taken = monotonic_seconds() - began;
      if (i == 0 || taken < seconds) seconds = taken;
    }
    return seconds;
  }

  double all_small() {
    const double seconds = seconds_of(bench_, [&] {
      for (const KernelProblems::Group& group : small_.groups()) {
        small_.reset(group);
        for (const KernelProblem& problem : group.problems) problem.run(kernels_);
      }
    });
    return 1.0 / seconds;
  }

  Workbench& bench_;
  const KernelTable& kernels_;
  KernelProblems problems_, small_{KernelSizes::smallest()};
  std::vector<double> copies_;
};

// Each core sums its part of the gradients of as many ranks as there are cores, in place, as ranks that share memory
// do.
class ReductionItem : public Item {
 public:
  explicit ReductionItem(Workbench& bench)
      : bench_(bench), kernels_(kernels_for(bench.isa())), ranks_(std::max(2, bench.core_count())) {
    count_ = static_cast<std::int64_t>(std::min(bench.memory_bytes() / static_cast<std::size_t>(ranks_), kMost) /
                                       sizeof(float)) /
             kBlock * kBlock;
    probe("sum of gradients", "GB/s", -1, [this] { return sum(); }).limit = [this] { return copy_; };
  }

 private:
  static constexpr std::size_t kMost = std::size_t{64} << 20;
  static constexpr std::int64_t kBlock = 1 << 16;  // floats, as the update's

  double sum() {
    float* const memory = static_cast<float*>(static_cast<void*>(bench_.memory()));
    const std::size_t bytes = static_cast<std::size_t>(count_ * ranks_) * sizeof(float);
    std::memset(bench_.memory(), 0, bytes);
    const std::int64_t blocks = count_ / kBlock;
    const double moved = static_cast<double>(count_) * (ranks_ + 1) * sizeof(float);
    const double seconds = seconds_of(bench_, [&] {
      bench_.share(blocks, [&](std::int64_t block, int) {
        std::vector<const float*> terms(static_cast<std::size_t>(ranks_));
        for (int rank = 0; rank < ranks_; ++rank)
          terms[static_cast<std::size_t>(rank)] = memory + rank * count_ + block * kBlock;
        kernels_.sum_terms({memory + block * kBlock, terms.data(), ranks_, kBlock});
      });
    });
    measure_copy(bytes / 2);
    return moved * 1e-9 / seconds;
  }

  // Copies one half of the same memory to the other: caches that hold a part of it serve both.
  void measure_copy(std::size_t half) {
    constexpr std::size_t kPart = std::size_t{1} << 18;
    const std::int64_t parts = static_cast<std::int64_t>(half / kPart);
    const double seconds = seconds_of(bench_, [&] {
      bench_.share(parts, [&](std::int64_t part, int) {
        std::byte* const at = bench_.memory() + static_cast<std::size_t>(part) * kPart;
        std::memcpy(at + half, at, kPart);
      });
    });
    copy_ = std::max(copy_, 2.0 * static_cast<double>(half) * 1e-9 / seconds);
  }

  Workbench& bench_;
  const KernelTable& kernels_;
  int ranks_;
  std::int64_t count_ = 0;
  double copy_ = 0.0;
};

}  // namespace

std::unique_ptr<Item> make_product_item(Workbench& bench) { return std::make_unique<ProductItem>(bench); }
std::unique_ptr<Item> make_kernel_item(Workbench& bench) { return std::make_unique<KernelItem>(bench); }
std::unique_ptr<Item> make_reduction_item(Workbench& bench) { return std::make_unique<ReductionItem>(bench); }

}  // namespace bascule
