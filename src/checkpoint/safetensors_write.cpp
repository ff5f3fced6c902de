// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "src/base/align.h"
#include "src/base/check.h"
#include "src/checkpoint/dimension_order.h"
#include "src/checkpoint/safetensors.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;  // of a tensor that is copied

const char* dtype_name(DType type) {
  switch (type) {
    case DType::kFloat32: return "F32";
    case DType::kBFloat16: return "BF16";
    case DType::kFloat16: return "F16";
    case DType::kFloat64: return "F64";
    case DType::kInt64: return "I64";
    case DType::kInt32: return "I32";
    case DType::kInt16: return "I16";
    case DType::kInt8: return "I8";
    case DType::kUInt8: return "U8";
    case DType::kBool: return "BOOL";
  }
  return "";
}

// The reference's order of element types within a file: never a narrow one before a wide one.
int place_of(DType type) {
  constexpr DType kOrder[] = {DType::kInt64,   DType::kFloat64, DType::kFloat32, DType::kInt32, DType::kBFloat16,
                              DType::kFloat16, DType::kInt16,   DType::kInt8,    DType::kUInt8, DType::kBool};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), type) - std::begin(kOrder));
}

std::string header_with_length(const std::vector<TensorToWrite>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + json_text(Json::Object(metadata.begin(), metadata.end()));
  std::int64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::int64_t end = offset + tensor_bytes(tensor);
    json += json.size() == 1 ? "" : ",";
    json += json_text(Json(tensor.name)) + ":{\"dtype\":\"" + dtype_name(tensor.dtype) +
            "\",\"shape\":" + json_text(Json(tensor.shape)) + ",\"data_offsets\":[" + std::to_string(offset) + "," +
            std::to_string(end) + "]}";
    offset = end;
  }
  json += "}";
  json.resize(align_up<std::size_t>(json.size(), 8), ' ');
  std::string header;
  for (int shift = 0; shift < 64; shift += 8) {
    header += static_cast<char>(static_cast<unsigned char>(std::uint64_t{json.size()} >> shift));
  }
  return header + json;
}

// Whether its elements pass through the buffer: they are not in memory as the file has them.
bool is_copied(const TensorToWrite& tensor) {
  return tensor.data != nullptr ? !tensor.strides.empty() : tensor.source != nullptr || tensor.reader.read != nullptr;
}

}  // namespace

std::int64_t tensor_bytes(const TensorToWrite& tensor) {
  return element_count(tensor.shape) * static_cast<std::int64_t>(element_bytes(tensor.dtype));
}

SafetensorsWritePlan::SafetensorsWritePlan(std::vector<TensorToWrite> tensors,
                                           const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return std::pair(place_of(a.dtype), std::string_view(a.name)) <
           std::pair(place_of(b.dtype), std::string_view(b.name));
  });
  header_ = header_with_length(tensors_, metadata);
  file_bytes_ = static_cast<std::int64_t>(header_.size());
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors_) {
    BASCULE_CHECK(names.insert(tensor.name).second);
    if (is_copied(tensor)) {
      BASCULE_CHECK(tensor.dtype == DType::kFloat32 &&
                    (tensor.source == nullptr || tensor.stored->shape == tensor.shape));
      BASCULE_CHECK(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size());
      copy_buffer_.resize(static_cast<std::size_t>(kChunkBytes) / sizeof(float));
    }
    BASCULE_CHECK(is_copied(tensor) || tensor.data != nullptr || element_count(tensor.shape) == 0);
    file_bytes_ += tensor_bytes(tensor);
  }
}

Status SafetensorsWritePlan::write_tensor(OutputFile& file, const TensorToWrite& tensor,
                                          WriteProgress progress) const noexcept {
  const auto read = [&](std::int64_t first, std::int64_t part) {
    float* const to = copy_buffer_.data();
    if (tensor.data != nullptr) {
      gather(to, static_cast<const float*>(tensor.data), tensor.shape, tensor.strides, first, part);
      return ok_status();
    }
    return tensor.source != nullptr ? tensor.source->try_read_float32(to, *tensor.stored, first, part)
                                    : tensor.reader.read(tensor.reader.context, to, first, part);
  };
  if (!is_copied(tensor)) return file.write(tensor.data, static_cast<std::size_t>(tensor_bytes(tensor)), progress);
  const auto block = static_cast<std::int64_t>(copy_buffer_.size());
  const std::int64_t count = element_count(tensor.shape);
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t part = std::min(block, count - first);
    BASCULE_TRY(read(first, part));
    BASCULE_TRY(file.write(copy_buffer_.data(), static_cast<std::size_t>(part) * sizeof(float), progress));
  }
  return ok_status();
}

Status SafetensorsWritePlan::write(const char* path, WriteProgress progress, std::uint64_t* digest) const noexcept {
  OutputFile file;
  BASCULE_TRY(file.create(path));
  BASCULE_TRY(file.write(header_.data(), header_.size()));
  for (const TensorToWrite& tensor : tensors_) BASCULE_TRY(write_tensor(file, tensor, progress));
  if (digest != nullptr) *digest = file.digest();
  return file.sync_and_close(progress);
}

}  // namespace bascule
