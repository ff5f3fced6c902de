// SPDX-License-Identifier: Apache-2.0
// tensor_hashes.bin of a run (src/session/tensor_hashes.h), read; and where those of two runs part. Not sealed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/files/input_file.h"
#include "src/session/tensor_hashes.h"

namespace bascule {

class HashLog {
 public:
  // folder: of a run. Throws Error{kData} where there are no hashes, or the file is damaged.
  explicit HashLog(const std::string& folder);

  const std::string& path() const { return file_.path(); }
  // Names of the tensors, in the order of the tape.
  const std::vector<std::string>& values() const { return values_; }
  const std::vector<std::string>& gradients() const { return gradients_; }
  const std::vector<std::int64_t>& elements() const { return elements_; }  // of values()
  // Updates that were hashed, ascending.
  const std::vector<std::int64_t>& steps() const { return steps_; }
  // An update by its place in steps(): how it was divided; the values' hashes, then the gradients'.
  UpdateDivision division(std::size_t place) const;
  std::vector<std::uint64_t> hashes(std::size_t place) const;

 private:
  InputFile file_;
  std::vector<std::string> values_, gradients_;
  std::vector<std::int64_t> elements_;
  std::int64_t at(std::size_t place) const { return begin_ + static_cast<std::int64_t>(place) * stride_; }

  std::int64_t samples_of_piece_ = 0, begin_ = 0, stride_ = 0;
  std::vector<std::int64_t> steps_;
};

struct Parting {
  std::int64_t step = 0;                  // the first update that both runs hashed and that differs; 0: none
  bool is_gradient = false;               // else a value, before that update
  std::string tensor;                     // the first in the tape's order: values as they are read, then gradients
  std::size_t values = 0, gradients = 0;  // that differ in this update
  UpdateDivision division_of_a, division_of_b;     // of this update
  std::int64_t equal_updates = 0;                  // hashed by both and equal, before it
  std::int64_t first_common = 0, last_common = 0;  // updates that both hashed
};

// Throws Error{kData} where the runs have different tensors, or hashed no update in common.
Parting find_parting(const HashLog& a, const HashLog& b);

}  // namespace bascule
