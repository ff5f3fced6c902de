// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/status.h"
#include "src/checkpoint/tensor_source.h"
#include "src/files/durable_write.h"

namespace bascule {

// --- Reading, before the seal; every fault of a file is one Error{kData} ---

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their offsets; `file` as given
  std::map<std::string, std::string> metadata;
};

// As strict as the reference: the header is at most 100 MB and within the file, begins with '{' and is JSON in UTF-8;
// each tensor's bytes equal shape x element type; together they cover the rest of the file without overlap or hole.
// Nothing is allocated that the file does not hold. `file_index` is put into every StoredTensor::file.
SafetensorsHeader read_safetensors_header(const InputFile& file, std::size_t file_index = 0);

// One file as a source.
TensorSource open_safetensors(const std::string& path);

// --- Writing ---

// A tensor's elements that lie elsewhere: [first, first + count) of it. Used after the seal.
struct TensorReader {
  Status (*read)(void* context, float* destination, std::int64_t first, std::int64_t count) noexcept = nullptr;
  void* context = nullptr;
};

// One tensor to be written: from memory in the file's element type, or (data == nullptr) as float32 from `source`.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;            // read when the file is written, so it must live until then
  const TensorSource* source = nullptr;  // with data == nullptr: copied from here, whose tensor is
  const StoredTensor* stored = nullptr;  // this one (same shape); dtype above must be kFloat32
  TensorReader reader = {};              // with neither: from here; dtype above must be kFloat32
  Extents strides = {};                  // of `data`, in elements; empty: row-major. dtype above must be kFloat32
};

// In the file.
std::int64_t tensor_bytes(const TensorToWrite& tensor);

// A file whose header and memory are made before the seal; writing it, any number of times, allocates nothing. Tensors
// are in the reference's order: by element type, wide before narrow, so that every one is aligned; then by name.
class SafetensorsWritePlan {
 public:
  explicit SafetensorsWritePlan(std::vector<TensorToWrite> tensors,
                                const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  std::int64_t file_bytes() const { return file_bytes_; }
  // In the order of the file, one after another from the end of the header on.
  const std::vector<TensorToWrite>& tensors() const { return tensors_; }
  const std::string& header() const { return header_; }

  // Creates (or empties) `path`, writes, syncs the data, closes. kDiskFailed (detail: errno) or kReadFailed; the broken
  // file is left for the caller, who writes under a temporary name (durable_write.h).
  // digest: of the file; may be null.
  Status write(const char* path, WriteProgress progress = {}, std::uint64_t* digest = nullptr) const noexcept;

 private:
  Status write_tensor(OutputFile& file, const TensorToWrite& tensor, WriteProgress progress) const noexcept;

  std::vector<TensorToWrite> tensors_;
  std::string header_;  // length and JSON, padded to 8 bytes
  std::int64_t file_bytes_ = 0;
  mutable std::vector<float> copy_buffer_;  // for tensors from a source; empty if there is none
};

}  // namespace bascule
