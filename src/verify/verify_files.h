// SPDX-License-Identifier: Apache-2.0
// The files of a reference case and their contents.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"
#include "src/models/families.h"
#include "src/session/packed_batch.h"
#include "src/settings/settings.h"

namespace bascule {

// The contents of a reference case, worked out from case.json and the tensors beside it. Nothing that it lacks is
// demanded; tensors that this program does not compute have a line in `not_compared`, and the case may pass all the
// same. A tensor that no line names and no graph computes fails.

struct NotCompared {
  std::string name;  // of a tensor, or what several are together
  std::string reason;
};

// In bf16 the loss and gradients alone have a limit.
struct CaseContents {
  bool loss = false;
  bool generated = false;  // generated.*, which the model's generation makes
  bool outputs = false;    // expected.safetensors: tensors that are neither the loss nor gradients nor generated
  bool gradients = false;  // grad.*, or grad_sample.* and grad_l2.* of a large case
  bool run = false;        // updates of an optimizer and a schedule that this program has
  std::vector<NotCompared> not_compared;

  bool reads_labels() const { return loss || gradients || run; }
};

// The files of one case that say what it holds. Borrowed.
struct CaseStatements {
  const std::string& folder;
  const Json& description;       // case.json
  const Json& errors;            // float32_error.json
  bool generates = false;        // the model
  const TensorSource& expected;  // without tensors where the case has no such file
  bool has_steps_file = false;   // steps.safetensors
};

// Throws Error kData.
CaseContents contents_of(const CaseStatements& files, Precision precision);

// The optimizers and schedules of the cases; null: this program has none of that name.
const Optimizer* find_optimizer(const std::string& name);
const Scheduler* find_scheduler(const std::string& name);

// train: the object in case.json. Throw Error kData for a value that is no text.
std::string optimizer_name(const Json& train, const std::string& where);
std::string scheduler_name(const Json& train, const std::string& where);

// The files of one reference case, of which expected.safetensors and steps.safetensors may be missing. Layout:
// tests/data/goldens/README.md. Everything throws Error kData naming the file.

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
