// SPDX-License-Identifier: Apache-2.0
// The files of one reference case, of which expected.safetensors and steps.safetensors may be missing. Layout:
// tests/data/goldens/README.md. Everything throws Error kData naming the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/session/packed_batch.h"
#include "src/verify/verify_contents.h"

namespace bascule {

// Elements [start, stop) of a parameter whose gradient is zero in exact arithmetic.
struct Slice {
  std::string parameter;
  std::int64_t start = 0, stop = 0;
};

struct CaseFiles {
  std::string folder;
  Json description, errors;
  TensorSource batches, expected, steps;
  CaseContents contents;
  std::unique_ptr<Model> model;
  ModelInputs inputs;
  std::vector<Slice> zero_gradient;
  double gradient_norm = 0.0;          // 0 where no gradient is zero in exact arithmetic
  std::int64_t height = 0, width = 0;  // of pictures
  std::int64_t bf16_draws = 1;         // its figures of autocast are the worst of so many runs
  double label_smoothing = 0.0;
  Optimizer optimizer = Optimizer::kAdamW;
  bool has_mixed_labels = false;

  // Null: none of its elements. Throws where the slice is not of so many.
  const Slice* zero_slice(const std::string& parameter, std::size_t elements) const;
};

CaseFiles open_case(const std::string& folder, Precision precision);
// Strings of case.json; none where it has no such list.
std::vector<std::string> strings_of(const CaseFiles& files, const std::string& key);
PaddedBatch read_batch(const CaseFiles& files, std::int64_t k);
std::vector<std::int64_t> read_integers(const TensorSource& source, const std::string& name, const std::string& where);
std::vector<float> read_floats(const TensorSource& source, const std::string& name, const std::string& where);

}  // namespace bascule
