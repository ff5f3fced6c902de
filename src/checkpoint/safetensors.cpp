// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // the reference's limit
constexpr std::int64_t kLengthBytes = 8;

// In the reference's order of element types within a file: never a narrow one before a wide one.
constexpr std::pair<const char*, DType> kTypes[] = {
    {"I64", DType::kInt64},     {"F64", DType::kFloat64}, {"F32", DType::kFloat32}, {"I32", DType::kInt32},
    {"BF16", DType::kBFloat16}, {"F16", DType::kFloat16}, {"I16", DType::kInt16},   {"I8", DType::kInt8},
    {"U8", DType::kUInt8},      {"BOOL", DType::kBool}};

std::optional<DType> dtype_of(const std::string& name) {
  for (const auto& [text, type] : kTypes) {
    if (name == text) return type;
  }
  return std::nullopt;
}

std::size_t place_of(DType type) {
  std::size_t place = 0;
  while (kTypes[place].second != type) ++place;
  return place;
}

[[noreturn]] void bad_tensor(const InputFile& file, const std::string& name, const std::string& what) {
  throw Error{ErrorKind::kData, file.path(), "tensor \"" + name + "\" " + what,
              "the file is damaged or is not a safetensors file"};
}

// Bytes of the shape, or nothing if an extent is negative or the product does not fit into 63 bits.
std::optional<std::int64_t> shape_bytes(const std::vector<std::int64_t>& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(element_bytes(dtype));
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

// The length and the text of the header, checked against the file's size before anything is allocated.
std::string header_text(const InputFile& file) {
  const auto bad = [&](const std::string& what) {
    return Error{ErrorKind::kData, file.path(), what, "the file is damaged or is not a safetensors file"};
  };
  if (file.size() < kLengthBytes) throw bad("has " + std::to_string(file.size()) + " bytes, too few for a header");
  unsigned char bytes[kLengthBytes];
  file.read(bytes, 0, sizeof bytes);
  std::uint64_t length = 0;
  for (std::size_t i = sizeof bytes; i-- > 0;) length = length << 8 | bytes[i];
  if (length > std::uint64_t{kMaxHeaderBytes}) {
    throw bad("declares a header of " + std::to_string(length) + " bytes; the limit is 100000000");
  }
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > file.size() - kLengthBytes) {
    throw bad("declares a header of " + std::to_string(length) + " bytes, but has " + std::to_string(file.size()) +
              " in total");
  }
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  file.read(text.data(), kLengthBytes, text.size());
  if (text.empty() || text.front() != '{') throw bad("has a header that does not start with {");
  return text;
}

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Range read_tensor(StoredTensor& tensor, const Json& entry, const InputFile& file) {
  const std::string where = file.path() + ": tensor \"" + tensor.name + "\"";
  const std::string dtype_name = get_string(entry, "dtype", where);
  const std::optional<DType> dtype = dtype_of(dtype_name);
  if (!dtype) bad_tensor(file, tensor.name, "has element type " + dtype_name + ", which is not supported");
  tensor.dtype = *dtype;
  tensor.shape = get_ints(entry, "shape", where);
  const std::vector<std::int64_t> offsets = get_ints(entry, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0]) {
    bad_tensor(file, tensor.name, "has data_offsets " + shape_text(offsets) + ", which are not a range");
  }
  const std::optional<std::int64_t> bytes = shape_bytes(tensor.shape, tensor.dtype);
  if (!bytes || *bytes != offsets[1] - offsets[0]) {
    bad_tensor(file, tensor.name,
               "has shape " + shape_text(tensor.shape) + " of " + dtype_name + ", but " +
                   std::to_string(offsets[1] - offsets[0]) + " bytes");
  }
  return Range{offsets[0], offsets[1]};
}

// Tensors in the order of their bytes; these must follow one another and end where the file ends.
void check_layout(std::vector<std::pair<Range, StoredTensor>>& placed, std::int64_t data_bytes, const InputFile& file) {
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  std::int64_t expected = 0;
  for (const auto& [range, tensor] : placed) {
    if (range.begin != expected) {
      const char* fault = range.begin < expected ? ", which another tensor covers" : ", after a gap";
      bad_tensor(file, tensor.name, "begins at byte " + std::to_string(range.begin) + fault);
    }
    if (range.end > data_bytes) {
      bad_tensor(file, tensor.name,
                 "ends at byte " + std::to_string(range.end) + " of the data, but the file holds " +
                     std::to_string(data_bytes) + ": it is truncated");
    }
    expected = range.end;
  }
  if (expected != data_bytes) {
    throw Error{
        ErrorKind::kData, file.path(),
        "holds " + std::to_string(data_bytes) + " bytes of data, but its tensors take " + std::to_string(expected),
        "the file is damaged"};
  }
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file, std::size_t file_index) {
  const std::string text = header_text(file);
  const Json document = parse_json(text, file.path() + ": header");
  const std::int64_t data_start = kLengthBytes + static_cast<std::int64_t>(text.size());
  SafetensorsHeader header;
  std::vector<std::pair<Range, StoredTensor>> placed;
  for (const auto& [name, entry] : document.items()) {
    if (name == "__metadata__") {
      if (entry.is_null()) continue;  // as the safetensors library reads it
      for (const auto& [key, value] : get_object(document, name, file.path()).items()) {
        if (!value.is_string()) throw Error{ErrorKind::kData, file.path(), "__metadata__ must hold strings only", ""};
        header.metadata.emplace(key, value.string());
      }
      continue;
    }
    StoredTensor tensor;
    tensor.name = name;
    tensor.file = file_index;
    const Range range = read_tensor(tensor, entry, file);
    tensor.offset = data_start + std::min(range.begin, file.size());  // a wild offset is refused below
    placed.emplace_back(range, std::move(tensor));
  }
  check_layout(placed, file.size() - data_start, file);
  for (auto& entry : placed) header.tensors.push_back(std::move(entry.second));
  return header;
}

TensorSource open_safetensors(const std::string& path) {
  std::vector<InputFile> files;
  files.emplace_back(path);
  std::vector<StoredTensor> tensors = read_safetensors_header(files.front()).tensors;
  return TensorSource(std::move(files), std::move(tensors));
}

namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;  // of a tensor that is copied

std::string header_with_length(const std::vector<TensorToWrite>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + json_text(Json::Object(metadata.begin(), metadata.end()));
  std::int64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::int64_t end = offset + tensor_bytes(tensor);
    json += json.size() == 1 ? "" : ",";
    json += json_text(Json(tensor.name)) + ":{\"dtype\":\"" + kTypes[place_of(tensor.dtype)].first +
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
