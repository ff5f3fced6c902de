// SPDX-License-Identifier: Apache-2.0
// Tensors stored in files: their shapes and strides, where they lie, and reading them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/status.h"
#include "src/files/input_file.h"

namespace bascule {

// Shapes with strides as files state them: nothing about them is trusted. Extents and strides are not negative, in
// elements.

using Extents = std::vector<std::int64_t>;

// Whether every element of a tensor that begins at element `first` lies within `elements` elements. False on overflow.
bool lies_within(const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t elements);

// Whether the strides are those of row-major order without gaps. The stride of an extent of 1 says nothing.
bool is_contiguous(const Extents& shape, const Extents& strides);

// Tensors whose dimensions lie in memory in another order than in their file: a convolution's (out, in, height, width)
// as rows of (out, height, width, in).

// The file's dimension that is dimension 0, 1, ... in memory: each of them once. Empty: the file's order.
using DimensionOrder = std::vector<int>;

// Elements in memory from one index of each of the file's dimensions to the next.
Extents strides_in_memory(const Extents& shape, const DimensionOrder& order);

// Elements [first, first + count) of the tensor as its file has them, into memory and out of it. base: element 0 in
// memory; values: `count` of them. Allocates nothing.
void scatter(float* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const float* values) noexcept;
void scatter(std::uint16_t* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const std::uint16_t* values) noexcept;
void gather(float* values, const float* base, const Extents& shape, const Extents& strides, std::int64_t first,
            std::int64_t count) noexcept;

// Tensors stored in files, whatever the format: where each lies, and reading any run of its elements as float32.
// The formats' readers (safetensors.h, torch_pickle.h) say where tensors lie; nothing is mapped, pread goes straight
// into the caller's memory. Reading is const and may be done by many threads at once.

// Elements of a shape; 1 for a scalar []. The shape must be that of a tensor read or planned by this room: no overflow.
std::int64_t element_count(const std::vector<std::int64_t>& shape);
std::string shape_text(const std::vector<std::int64_t>& shape);  // "[3, 288, 288]"

struct StoredTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t file = 0;               // index into the source's files
  std::int64_t offset = 0;            // bytes from the start of the file to element 0
  std::vector<std::int64_t> strides;  // in elements; empty: contiguous, row-major
};

// A set of tensors with distinct names, in the order of their files; owns the open files.
class TensorSource {
 public:
  TensorSource() = default;
  // Throws Error{kData} if two tensors share a name. The readers have checked that tensors lie within their files.
  TensorSource(std::vector<InputFile> files, std::vector<StoredTensor> tensors);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // nullptr if there is none; throws nothing
  const std::string& path_of(const StoredTensor& tensor) const { return files_[tensor.file].path(); }
  const std::vector<InputFile>& files() const { return files_; }

  // Elements [first, first + count) of the flattened tensor. Float types are widened or (float64) rounded to nearest,
  // integers and booleans converted. The try_ form may be used after the seal: it allocates nothing; kReadFailed on
  // error.
  void read_float32(float* destination, const StoredTensor& tensor, std::int64_t first, std::int64_t count) const;
  Status try_read_float32(float* destination, const StoredTensor& tensor, std::int64_t first,
                          std::int64_t count) const noexcept;
  // The whole tensor with its own element type (labels, ids), in row-major order.
  void read_bytes(void* destination, const StoredTensor& tensor) const;

 private:
  std::vector<InputFile> files_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// destination[i] = float(source[i]), i < count; source is unaligned memory of `type`. noexcept, allocates nothing.
void convert_to_float32(float* destination, const void* source, DType type, std::int64_t count) noexcept;
// The same to bf16, as kernels/bf16.h rounds.
void convert_to_bf16(std::uint16_t* destination, const float* source, std::int64_t count) noexcept;

}  // namespace bascule
