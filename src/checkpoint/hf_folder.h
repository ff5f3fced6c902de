// SPDX-License-Identifier: Apache-2.0
// Weights out of a Hugging Face folder: model.safetensors, or its shards with an index, or pytorch_model.bin, or its
// shards; or files with the names of another library. Knows no model: the caller says which tensors it wants and where
// they go. Before the seal.
//
//   const TensorSource source = open_hf_weights(folder);
//   // Error{kData}: a required tensor is absent, or one has another shape.
//   const TensorReads reads = plan_reads(source, wanted, body_prefix);
//   for (const TensorPart& part : reads.parts) status = read_part(source, part);  // in any order, by any threads
//   for (const std::string& name : reads.report.missing) initialise(name);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/elements.h"
#include "src/base/error.h"
#include "src/base/status.h"
#include "src/checkpoint/tensor_source.h"
#include "src/graph/parameters.h"

namespace bascule {

// The name that a library gives the files of weights, without their endings and "-00001-of-00002".
struct WeightsStem {
  const char* safetensors = "model";
  const char* bin = "pytorch_model";
};
inline constexpr WeightsStem kDiffusersWeights = {"diffusion_pytorch_model", "diffusion_pytorch_model"};

// Safetensors are preferred to .bin, one file to shards, as Transformers does. Error{kData} if there are no weights, a
// shard is missing or a name is in two shards or in another one than the index says.
TensorSource open_hf_weights(const std::string& folder, const WeightsStem& stem = {});
// The names of the files that it reads, sorted: the weights, or their index and its shards. Error{kData} if there are
// no weights.
std::vector<std::string> hf_weight_files(const std::string& folder, const WeightsStem& stem = {});

struct WantedTensor {
  std::string name;                 // full name, as the model's class saves it: with the prefix of its body
  std::vector<std::int64_t> shape;  // in the file; compared exactly
  Elements destination = {};        // `count` of them; bf16: rounded; null: checked only
  std::int64_t first = 0;           // first element of the flattened tensor, and how many; -1: all of it
  std::int64_t count = -1;
  bool required = true;       // false: an absent one is reported and its destination left alone
  DimensionOrder order = {};  // of all of it, at the destination; empty: as in the file
};

struct LoadReport {
  std::int64_t loaded = 0;
  std::vector<std::string> missing;  // wanted names that were not required and are not there, in the order wanted
  std::vector<std::string> unused;   // names in the file that nobody wanted; without buffers that old versions saved
};

// The tensor `name`, by its full name or, for files of a bare model or a caller who wants a bare model, without or with
// the prefix; then by its other name, or by those that are tied to it.
const StoredTensor* find_tensor(const TensorSource& source, const std::string& name, const FileNames& names);
// Whether the source has both tensors, of one shape, and all their elements are equal.
bool are_equal(const TensorSource& source, const std::string& a, const std::string& b, const FileNames& names);

// A piece of a wanted tensor, of at most kMostBytes in memory.
struct TensorPart {
  static constexpr std::int64_t kMostBytes = std::int64_t{8} << 20;

  const StoredTensor* stored = nullptr;
  Elements destination = {};  // of the piece; with strides: of the tensor's element 0
  std::int64_t first = 0, count = 0;
  Extents strides = {};  // of the destination, by the file's dimensions; empty: row-major
};

struct TensorReads {
  LoadReport report;
  std::vector<TensorPart> parts;  // of the tensors that have a destination, in the order wanted
};

// Looks for every wanted tensor and checks it; reads none. A tensor's names are tried as find_tensor does. Old
// `position_ids` and `token_type_ids` buffers are ignored.
TensorReads plan_reads(const TensorSource& source, const std::vector<WantedTensor>& wanted, const FileNames& names);

// Reads a part, and the error of one that could not be read.
Status read_part(const TensorSource& source, const TensorPart& part) noexcept;
Error error_of_part(const TensorSource& source, const TensorPart& part, const Status& status);

}  // namespace bascule
