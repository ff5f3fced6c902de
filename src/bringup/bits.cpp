// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/bring_up.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/clock.h"
#include "src/base/digest.h"
#include "src/bringup/kernel_problems.h"
#include "src/bringup/machine_limits.h"

namespace bascule {
namespace {

std::uint64_t digest_of(Span<const float> numbers) {
  Digest digest;
  digest.add(numbers.data(), numbers.size() * sizeof(float));
  return digest.value();
}

// Products whose operands all cores share, and what each core writes.
class Passes {
 public:
  explicit Passes(Workbench& bench)
      : bench_(bench), kernels_(kernels_for(bench.isa())), own_(bench.isa(), bench.core_count()) {
    constexpr std::pair<GemmKind, const char*> kKinds[] = {{GemmKind::kForward, "forward"},
                                                           {GemmKind::kInputGradient, "input gradient"},
                                                           {GemmKind::kWeightGradient, "weight gradient"}};
    constexpr std::pair<GemmType, const char*> kTypes[] = {{GemmType::kFloat32, "float32"}, {GemmType::kBf16, "bf16"}};
    for (const auto& [type, type_name] : kTypes) {
      for (const auto& [kind, kind_name] : kKinds) {
        products_.push_back(std::make_unique<ProductData>(own_.products(), kind, type, 67, 400, 600));
        names_.push_back(std::string(type_name) + " product, " + kind_name);
      }
    }
    std::int64_t most = 0;
    for (const auto& product : products_) most = std::max(most, product->result_count());
    for (int core = 0; core < bench.core_count(); ++core) {
      problems_.push_back(std::make_unique<KernelProblems>(KernelSizes::smallest()));
      results_.emplace_back(static_cast<std::size_t>(most));
    }
    for (const auto& group : problems_.front()->groups()) {
      for (const KernelProblem& problem : group.problems) names_.push_back(problem.text);
    }
  }

  const std::vector<std::string>& names() const { return names_; }

  // The digests of all results, in the order of names().
  std::vector<std::uint64_t> run(int thread, const SeeResult& see) {
    const std::size_t t = static_cast<std::size_t>(thread);
    const int core = bench_.cores()[t];
    std::vector<std::uint64_t> digests;
    const auto finish = [&](Span<float> result) {
      if (see) see(core, names_[digests.size()], result);
      digests.push_back(digest_of(result));
    };
    for (const auto& product : products_) {
      float* const c = results_[t].data();
      for (std::int64_t task = 0; task < product->tasks(); ++task) product->run(task, thread, c);
      finish({c, static_cast<std::size_t>(product->result_count())});
    }
    for (const KernelProblems::Group& group : problems_[t]->groups()) {
      problems_[t]->reset(group);
      for (const KernelProblem& problem : group.problems) {
        problem.run(kernels_);
        finish(problems_[t]->memory(group));
      }
    }
    return digests;
  }

 private:
  Workbench& bench_;
  const KernelTable& kernels_;
  OwnProducts own_;
  std::vector<std::unique_ptr<ProductData>> products_;
  std::vector<std::unique_ptr<KernelProblems>> problems_;  // each core's
  std::vector<std::vector<float>> results_;                // each core's
  std::vector<std::string> names_;
};

using Digests = std::vector<std::uint64_t>;

std::uint64_t whole(const Digests& digests) {
  Digest digest;
  for (const std::uint64_t one : digests) digest.add_number(one);
  return digest.value();
}

// The recorded digests where a core has them; else those that most cores have.
const Digests& right_ones(const std::vector<Digests>& cores) {
  std::map<std::uint64_t, int> votes;
  const Digests* best = &cores.front();
  for (const Digests& core : cores) {
    const std::uint64_t sum = whole(core);
    if (sum == kRecordedPassBits) return core;
    if (++votes[sum] > votes[whole(*best)]) best = &core;
  }
  return *best;
}

void judge(const Workbench& bench, const std::vector<std::string>& names, const std::vector<Digests>& cores,
           BitsResult* result) {
  const Digests& right = right_ones(cores);
  result->digest = whole(right);
  if (result->digest != kRecordedPassBits) result->none_as_recorded = true;
  for (std::size_t c = 0; c < cores.size(); ++c) {
    const auto differs = std::mismatch(right.begin(), right.end(), cores[c].begin()).first;
    if (differs == right.end()) continue;
    const int number = bench.cores()[c];
    const auto known = std::find_if(result->wrong.begin(), result->wrong.end(),
                                    [&](const WrongCore& core) { return core.core == number; });
    if (known != result->wrong.end()) {
      ++known->passes;
    } else {
      result->wrong.push_back({number, names[static_cast<std::size_t>(differs - right.begin())], 1});
    }
  }
}

}  // namespace

BitsResult compare_bits(Workbench& bench, double seconds, const SeeResult& see) {
  Passes passes(bench);
  BitsResult result;
  const double began = monotonic_seconds();
  std::vector<Digests> cores(bench.cores().size());
  do {
    bench.on_each_core([&](int thread) { cores[static_cast<std::size_t>(thread)] = passes.run(thread, see); });
    judge(bench, passes.names(), cores, &result);
    ++result.passes;
    result.seconds = monotonic_seconds() - began;
  } while (result.seconds < seconds);
  std::sort(result.wrong.begin(), result.wrong.end(),
            [](const WrongCore& a, const WrongCore& b) { return a.core < b.core; });
  return result;
}

}  // namespace bascule
