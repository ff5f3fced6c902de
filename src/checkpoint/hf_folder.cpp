// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/paths.h"
#include "src/checkpoint/safetensors.h"
#include "src/checkpoint/torch_pickle.h"
#include "src/json/json.h"

namespace bascule {
namespace {

// `git clone` without Git LFS leaves such a pointer in place of the weights.
void refuse_lfs_pointer(const InputFile& file) {
  constexpr std::string_view kStart = "version https://git-lfs";
  char start[kStart.size()];
  if (file.size() < static_cast<std::int64_t>(sizeof start)) return;
  file.read(start, 0, sizeof start);
  if (std::string_view(start, sizeof start) == kStart) {
    throw Error{ErrorKind::kData, file.path(), "is a Git LFS pointer, not the weights", "fetch them: git lfs pull"};
  }
}

std::vector<StoredTensor> read_weights(const InputFile& file, std::size_t file_index, bool is_safetensors) {
  refuse_lfs_pointer(file);
  return is_safetensors ? read_safetensors_header(file, file_index).tensors : read_torch_archive(file, file_index);
}

TensorSource open_one(const std::string& path, bool is_safetensors) {
  std::vector<InputFile> files;
  files.emplace_back(path);
  std::vector<StoredTensor> tensors = read_weights(files.front(), 0, is_safetensors);
  return TensorSource(std::move(files), std::move(tensors));
}

// name of tensor -> name of shard
std::map<std::string, std::string> read_weight_map(const std::string& index_path) {
  const Json index = read_json_file(index_path);
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, shard] : get_object(index, "weight_map", index_path).items()) {
    const std::string file = shard.is_string() ? shard.string() : "";
    if (file.empty() || file == ".." || file.find('/') != std::string::npos) {
      throw Error{ErrorKind::kData, index_path, "\"" + name + "\" is in " + json_text(shard),
                  "it must be the name of a file in the same folder"};
    }
    shard_of.emplace(name, file);
  }
  return shard_of;
}

TensorSource open_shards(const std::string& folder, const std::string& index_name, bool is_safetensors) {
  const std::string index_path = folder + "/" + index_name;
  const std::map<std::string, std::string> shard_of = read_weight_map(index_path);
  std::set<std::string> shards;
  for (const auto& entry : shard_of) shards.insert(entry.second);
  std::vector<InputFile> files;
  std::vector<StoredTensor> tensors;
  for (const std::string& shard : shards) {
    const std::string path = folder + "/" + shard;
    if (!is_there(path)) throw Error{ErrorKind::kData, path, "is missing, but " + index_name + " names it", ""};
    files.emplace_back(path);
    for (StoredTensor& tensor : read_weights(files.back(), files.size() - 1, is_safetensors)) {
      tensors.push_back(std::move(tensor));
    }
  }
  TensorSource source(std::move(files), std::move(tensors));
  for (const auto& [name, shard] : shard_of) {
    const StoredTensor* tensor = source.find(name);
    if (tensor == nullptr || source.path_of(*tensor) != folder + "/" + shard) {
      throw Error{ErrorKind::kData, folder + "/" + shard,
                  "lacks tensor \"" + name + "\", which " + index_name + " lists for it",
                  "use an index and shards that were saved together"};
    }
  }
  return source;
}

// Buffers that Transformers before 4.31 saved; they hold 0, 1, 2, ... or zeros.
bool is_old_buffer(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last == "position_ids" || last == "token_type_ids";
}

bool is_float(DType type) {
  return type == DType::kFloat32 || type == DType::kBFloat16 || type == DType::kFloat16 || type == DType::kFloat64;
}

void check_tensor(const TensorSource& source, const StoredTensor& stored, const WantedTensor& wanted) {
  const auto bad = [&](const std::string& what) {
    return Error{ErrorKind::kData, source.path_of(stored), "tensor \"" + stored.name + "\" " + what,
                 "config.json and the weights must belong together"};
  };
  if (stored.shape != wanted.shape) {
    throw bad("has shape " + shape_text(stored.shape) + ", but the model needs " + shape_text(wanted.shape));
  }
  if (!is_float(stored.dtype)) throw bad("holds integers, but the model needs floating point");
}

// The file that holds a folder's weights, or their index.
struct WeightsForm {
  std::string file;
  bool is_safetensors, is_index;
};

constexpr char kWithTensorFlow[] = "from_tf=True", kWithFlax[] = "from_flax=True";

// Weights of other software, and the argument with which Transformers and Diffusers read them, if they do.
constexpr struct {
  const char *file, *software, *argument;
} kForeignWeights[] = {{"tf_model.h5", "TensorFlow", kWithTensorFlow},
                       {"tf_model.h5.index.json", "TensorFlow", kWithTensorFlow},
                       {"model.ckpt.index", "TensorFlow", kWithTensorFlow},
                       {"flax_model.msgpack", "Flax", kWithFlax},
                       {"flax_model.msgpack.index.json", "Flax", kWithFlax},
                       {"diffusion_flax_model.msgpack", "Flax", kWithFlax},
                       {"model.onnx", "ONNX", nullptr},
                       {"onnx/model.onnx", "ONNX", nullptr},
                       {"openvino_model.xml", "OpenVINO", nullptr},
                       {"rust_model.ot", "Rust's tch", nullptr}};

void refuse_foreign_weights(const std::string& folder) {
  for (const auto& [file, software, argument] : kForeignWeights) {
    if (!is_there(folder + "/" + file)) continue;
    throw Error(ErrorKind::kData, folder,
                std::string("has no weights that Bascule reads: ") + file + " holds weights of " + software,
                argument != nullptr
                    ? "convert them with Transformers 4 or Diffusers: from_pretrained(FOLDER, " +
                          std::string(argument) + ").save_pretrained(NEW_FOLDER) of the model's class"
                    : "nothing converts them back: take the folder's safetensors or PyTorch weights from where it was "
                      "published");
  }
}

WeightsForm form_of(const std::string& folder, const WeightsStem& stem) {
  const std::string safetensors = std::string(stem.safetensors) + ".safetensors", bin = std::string(stem.bin) + ".bin";
  for (const WeightsForm& form : {WeightsForm{safetensors, true, false},
                                  {safetensors + ".index.json", true, true},
                                  {bin, false, false},
                                  {bin + ".index.json", false, true}}) {
    if (is_there(folder + "/" + form.file)) return form;
  }
  refuse_foreign_weights(folder);
  throw Error{ErrorKind::kData, folder, "holds no weights: no " + safetensors + ", no " + bin + ", no index of shards",
              "name a Hugging Face folder with weights; only training from scratch needs none"};
}

const StoredTensor* find_with_prefix(const TensorSource& source, const std::string& name, std::string_view prefix) {
  if (const StoredTensor* tensor = source.find(name)) return tensor;
  if (prefix.empty()) return nullptr;
  if (name.compare(0, prefix.size(), prefix) == 0) return source.find(std::string_view(name).substr(prefix.size()));
  return source.find(std::string(prefix) + name);
}

void throw_missing(const std::vector<std::string>& names, const TensorSource& source) {
  const std::string more = names.size() == 1 ? "" : " and " + std::to_string(names.size() - 1) + " more";
  const std::string where = source.tensors().empty() ? "weights" : source.path_of(source.tensors().front());
  throw Error{ErrorKind::kData, where,
              "tensor \"" + names.front() + "\"" + more + (more.empty() ? " is missing" : " are missing"),
              "config.json and the weights must belong together"};
}

}  // namespace

TensorSource open_hf_weights(const std::string& folder, const WeightsStem& stem) {
  const WeightsForm form = form_of(folder, stem);
  return form.is_index ? open_shards(folder, form.file, form.is_safetensors)
                       : open_one(folder + "/" + form.file, form.is_safetensors);
}

std::vector<std::string> hf_weight_files(const std::string& folder, const WeightsStem& stem) {
  const WeightsForm form = form_of(folder, stem);
  std::set<std::string> files = {form.file};
  if (form.is_index) {
    for (const auto& entry : read_weight_map(folder + "/" + form.file)) files.insert(entry.second);
  }
  return {files.begin(), files.end()};
}

const StoredTensor* find_tensor(const TensorSource& source, const std::string& name, const FileNames& names) {
  if (const StoredTensor* tensor = find_with_prefix(source, name, names.prefix)) return tensor;
  const std::string other = names.other(name);
  if (other != name) return find_with_prefix(source, other, names.prefix);
  if (name != names.table) return nullptr;
  for (const std::string& tied : names.tied) {
    if (const StoredTensor* tensor = find_with_prefix(source, tied, names.prefix)) return tensor;
  }
  return nullptr;
}

bool are_equal(const TensorSource& source, const std::string& a, const std::string& b, const FileNames& names) {
  const StoredTensor *const first = find_tensor(source, a, names), *const second = find_tensor(source, b, names);
  if (first == nullptr || second == nullptr || first->shape != second->shape) return false;
  constexpr std::int64_t kPart = std::int64_t{1} << 20;
  std::vector<float> of_first(kPart), of_second(kPart);
  const std::int64_t elements = element_count(first->shape);
  for (std::int64_t place = 0; place < elements; place += kPart) {
    const std::int64_t count = std::min(kPart, elements - place);
    source.read_float32(of_first.data(), *first, place, count);
    source.read_float32(of_second.data(), *second, place, count);
    if (!std::equal(of_first.begin(), of_first.begin() + count, of_second.begin())) return false;
  }
  return true;
}

TensorReads plan_reads(const TensorSource& source, const std::vector<WantedTensor>& wanted, const FileNames& names) {
  TensorReads reads;
  LoadReport& report = reads.report;
  std::vector<std::string> required_missing;
  std::set<const StoredTensor*> used;
  for (const WantedTensor& tensor : wanted) {
    const StoredTensor* const stored = find_tensor(source, tensor.name, names);
    if (stored == nullptr) {
      (tensor.required ? required_missing : report.missing).push_back(tensor.name);
      continue;
    }
    check_tensor(source, *stored, tensor);
    if (used.insert(stored).second) ++report.loaded;
    if (!tensor.destination) continue;
    const std::int64_t elements = element_count(tensor.shape);
    const std::int64_t end = tensor.count < 0 ? elements : tensor.first + tensor.count;
    BASCULE_CHECK(tensor.first >= 0 && end <= elements);
    BASCULE_CHECK(tensor.order.empty() || (tensor.first == 0 && end == elements));
    const Extents strides = tensor.order.empty() ? Extents{} : strides_in_memory(tensor.shape, tensor.order);
    constexpr std::int64_t kMost = TensorPart::kMostBytes / static_cast<std::int64_t>(sizeof(float));
    for (std::int64_t first = tensor.first; first < end; first += kMost) {
      const Elements to = tensor.order.empty() ? tensor.destination + (first - tensor.first) : tensor.destination;
      reads.parts.push_back({stored, to, first, std::min(kMost, end - first), strides});
    }
  }
  if (!required_missing.empty()) throw_missing(required_missing, source);
  for (const StoredTensor& tensor : source.tensors()) {
    if (used.count(&tensor) == 0 && !is_old_buffer(tensor.name)) report.unused.push_back(tensor.name);
  }
  return reads;
}

Status read_part(const TensorSource& source, const TensorPart& part) noexcept {
  const Elements to = part.destination;
  const bool is_row_major = part.strides.empty();
  if (is_row_major && !to.is_bf16()) return source.try_read_float32(to.float32(), *part.stored, part.first, part.count);
  constexpr std::int64_t kValues = 4096;
  float values[kValues];
  std::uint16_t rounded[kValues];
  for (std::int64_t done = 0; done < part.count; done += kValues) {
    const std::int64_t first = part.first + done, count = std::min(kValues, part.count - done);
    BASCULE_TRY(source.try_read_float32(values, *part.stored, first, count));
    if (!to.is_bf16()) {
      scatter(to.float32(), part.stored->shape, part.strides, first, count, values);
    } else if (is_row_major) {
      convert_to_bf16(to.bf16() + done, values, count);
    } else {
      convert_to_bf16(rounded, values, count);
      scatter(to.bf16(), part.stored->shape, part.strides, first, count, rounded);
    }
  }
  return ok_status();
}

Error error_of_part(const TensorSource& source, const TensorPart& part, const Status& status) {
  return Error{ErrorKind::kData, source.path_of(*part.stored) + ": " + part.stored->name, read_problem(status), ""};
}

// Element types of files to float32, and of memory to bf16.

namespace {

float float_of_bits(std::uint32_t bits) noexcept {
  float value = 0.0f;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float widen(float value) noexcept { return value; }
float widen(double value) noexcept { return static_cast<float>(value); }
float widen(std::int64_t value) noexcept { return static_cast<float>(value); }
float widen(std::int32_t value) noexcept { return static_cast<float>(value); }
float widen(std::int16_t value) noexcept { return static_cast<float>(value); }
float widen(std::int8_t value) noexcept { return static_cast<float>(value); }
float widen(std::uint8_t value) noexcept { return static_cast<float>(value); }

struct BFloat16 {
  std::uint16_t bits;
};
float widen(BFloat16 value) noexcept { return float_of_bits(std::uint32_t{value.bits} << 16); }

struct Float16 {
  std::uint16_t bits;  // sign, 5 bits of exponent (bias 15), 10 bits of fraction
};
float widen(Float16 value) noexcept {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction x 2^-24, exact in float32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return float_of_bits(sign | wide_exponent << 23 | fraction << 13);
}

template <typename Stored>
void convert_all(float* destination, const void* source, std::int64_t count) noexcept {
  const auto* from = static_cast<const unsigned char*>(source);
  for (std::int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    destination[i] = widen(value);
  }
}

}  // namespace

void convert_to_float32(float* destination, const void* source, DType type, std::int64_t count) noexcept {
  switch (type) {
    case DType::kFloat32: return convert_all<float>(destination, source, count);
    case DType::kBFloat16: return convert_all<BFloat16>(destination, source, count);
    case DType::kFloat16: return convert_all<Float16>(destination, source, count);
    case DType::kFloat64: return convert_all<double>(destination, source, count);
    case DType::kInt64: return convert_all<std::int64_t>(destination, source, count);
    case DType::kInt32: return convert_all<std::int32_t>(destination, source, count);
    case DType::kInt16: return convert_all<std::int16_t>(destination, source, count);
    case DType::kInt8: return convert_all<std::int8_t>(destination, source, count);
    case DType::kUInt8:
    case DType::kBool: return convert_all<std::uint8_t>(destination, source, count);
  }
}

void convert_to_bf16(std::uint16_t* destination, const float* source, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, source + i, sizeof bits);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    destination[i] = static_cast<std::uint16_t>(rounded >> 16);
  }
}

}  // namespace bascule
