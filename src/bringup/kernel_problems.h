// SPDX-License-Identifier: Apache-2.0
// Calls of nearly every kernel, in the sizes of a model, with the bytes that each must move: for measuring kernels, and
// for comparing the bits that cores compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "src/base/span.h"

namespace bascule {

struct KernelProblem {
  std::string text;    // "layer_norm_forward R=2600 C=768"
  double bytes = 0.0;  // arrays read and written once; no write-allocate
  std::function<void(const KernelTable&)> run;
};

struct KernelSizes {
  std::int64_t rows, width, feed_forward;
  std::int64_t parameters;  // of the update
  std::int64_t labelled, vocabulary;
  std::int64_t pairs, embedding;
  std::int64_t image, patch;

  static KernelSizes base() { return {2600, 768, 3072, 8 << 20, 64, 50265, 320, 512, 288, 16}; }
  static KernelSizes small() { return {1088, 128, 512, 1 << 18, 200, 1000, 48, 512, 64, 16}; }
  static KernelSizes smallest() { return {67, 128, 512, 1 << 15, 50, 1000, 24, 64, 32, 16}; }
};

// Problems of a kind follow each other and share memory: the backward one reads what the forward one wrote.
class KernelProblems : NonCopyable {
 public:
  explicit KernelProblems(const KernelSizes& sizes);

  struct Group {
    std::vector<KernelProblem> problems;
    std::size_t floats = 0;  // of memory(): those that the problems read and write
    struct Constant {
      float* first;
      std::int64_t count;
      float value;
    };
    std::vector<Constant> constants;
  };
  const std::vector<Group>& groups() const { return groups_; }

  // Every number of the group as it was in the beginning.
  void reset(const Group& group);
  Span<float> memory(const Group& group) { return {floats_.data() + begin_, group.floats}; }

 private:
  void begin_group();
  void end_group();
  float* take(std::int64_t count, std::optional<float> value = std::nullopt);
  void add(const std::string& text, double bytes, std::function<void(const KernelTable&)> run);

  void add_layer_norms(std::int64_t R, std::int64_t C);
  void add_activations(std::int64_t R, std::int64_t C);
  void add_row_passes(std::int64_t R, std::int64_t C);
  void add_update(std::int64_t count);
  void add_cross_entropy(std::int64_t R, std::int64_t V);
  void add_contrastive(std::int64_t B, std::int64_t E);
  void add_patches(std::int64_t S, std::int64_t P);

  std::vector<float> floats_;
  std::size_t begin_ = 0;  // the first that is 64-byte aligned
  std::size_t next_ = 0;
  // Never written by a kernel.
  std::vector<std::uint64_t> keys_;
  std::vector<std::int32_t> index_, labels_;
  std::vector<std::int32_t> hits_;
  std::vector<Group> groups_;
};

}  // namespace bascule
