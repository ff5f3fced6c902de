// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/tensor_source.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/error.h"

namespace bascule {

bool lies_within(const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t elements) {
  if (first < 0 || first > elements) return false;
  std::int64_t count = 1;
  std::int64_t last = first;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(count, shape[d], &count)) return false;
    if (shape[d] == 0) continue;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return count == 0 || last < elements;
}

bool is_contiguous(const Extents& shape, const Extents& strides) {
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] > 1 && strides[d] != expected) return false;
    expected *= std::max<std::int64_t>(shape[d], 1);
  }
  return true;
}

namespace {

// Calls move(place in memory, place among the values, elements, stride in memory) for each part of the file's last
// dimension.
template <typename Move>
void walk(const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count, Move move) noexcept {
  const std::int64_t inner = shape.empty() ? 1 : shape.back();
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t index = first + done;
    std::int64_t rest = index, place = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      place += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    const std::int64_t part = std::min(count - done, inner - index % inner);
    move(place, done, part, shape.empty() ? 1 : strides.back());
    done += part;
  }
}

template <typename Number>
void scatter_numbers(Number* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
                     const Number* values) noexcept {
  walk(shape, strides, first, count, [=](std::int64_t place, std::int64_t done, std::int64_t part, std::int64_t step) {
    for (std::int64_t i = 0; i < part; ++i) base[place + i * step] = values[done + i];
  });
}

}  // namespace

Extents strides_in_memory(const Extents& shape, const DimensionOrder& order) {
  BASCULE_CHECK(order.empty() || order.size() == shape.size());
  Extents strides(shape.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::size_t d = order.empty() ? i : static_cast<std::size_t>(order[i]);
    BASCULE_CHECK(d < shape.size() && strides[d] == 0);
    strides[d] = step;
    step *= std::max<std::int64_t>(1, shape[d]);
  }
  return strides;
}

void scatter(float* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const float* values) noexcept {
  scatter_numbers(base, shape, strides, first, count, values);
}

void scatter(std::uint16_t* base, const Extents& shape, const Extents& strides, std::int64_t first, std::int64_t count,
             const std::uint16_t* values) noexcept {
  scatter_numbers(base, shape, strides, first, count, values);
}

void gather(float* values, const float* base, const Extents& shape, const Extents& strides, std::int64_t first,
            std::int64_t count) noexcept {
  walk(shape, strides, first, count, [=](std::int64_t place, std::int64_t done, std::int64_t part, std::int64_t step) {
    for (std::int64_t i = 0; i < part; ++i) values[done + i] = base[place + i * step];
  });
}

namespace {

// Elements are converted through a block of this many bytes on the stack.
constexpr std::int64_t kBlockBytes = 32768;

// Where element `index` of the flattened tensor lies, in elements from element 0.
std::int64_t strided_position(const StoredTensor& tensor, std::int64_t index) noexcept {
  std::int64_t position = 0;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    position += index % tensor.shape[d] * tensor.strides[d];
    index /= tensor.shape[d];
  }
  return position;
}

// How many elements from `index` on lie one after another, at most `count`.
std::int64_t contiguous_run(const StoredTensor& tensor, std::int64_t index, std::int64_t count) noexcept {
  if (tensor.strides.empty()) return count;
  if (tensor.strides.back() != 1) return 1;
  return std::min(count, tensor.shape.back() - index % tensor.shape.back());
}

std::int64_t byte_position(const StoredTensor& tensor, std::int64_t index) noexcept {
  const std::int64_t element = tensor.strides.empty() ? index : strided_position(tensor, index);
  return tensor.offset + element * static_cast<std::int64_t>(element_bytes(tensor.dtype));
}

Status read_run(float* destination, const InputFile& file, DType type, std::int64_t offset,
                std::int64_t count) noexcept {
  const auto width = static_cast<std::int64_t>(element_bytes(type));
  if (type == DType::kFloat32) return file.try_read(destination, offset, static_cast<std::size_t>(count * width));
  alignas(8) unsigned char block[kBlockBytes];
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t part = std::min(count - done, kBlockBytes / width);
    BASCULE_TRY(file.try_read(block, offset + done * width, static_cast<std::size_t>(part * width)));
    convert_to_float32(destination + done, block, type, part);
    done += part;
  }
  return ok_status();
}

}  // namespace

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

TensorSource::TensorSource(std::vector<InputFile> files, std::vector<StoredTensor> tensors)
    : files_(std::move(files)), tensors_(std::move(tensors)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto [place, is_new] = index_.emplace(tensors_[i].name, i);
    if (is_new) continue;
    const std::string& other = path_of(tensors_[place->second]);
    throw Error{ErrorKind::kData, path_of(tensors_[i]),
                "tensor \"" + tensors_[i].name + "\" is stored twice, also in " + other, "remove one of the files"};
  }
}

const StoredTensor* TensorSource::find(std::string_view name) const {
  const auto place = index_.find(name);
  return place == index_.end() ? nullptr : &tensors_[place->second];
}

Status TensorSource::try_read_float32(float* destination, const StoredTensor& tensor, std::int64_t first,
                                      std::int64_t count) const noexcept {
  const std::int64_t last = first + count;
  for (std::int64_t index = first; index < last;) {
    const std::int64_t run = contiguous_run(tensor, index, last - index);
    BASCULE_TRY(
        read_run(destination + (index - first), files_[tensor.file], tensor.dtype, byte_position(tensor, index), run));
    index += run;
  }
  return ok_status();
}

void TensorSource::read_float32(float* destination, const StoredTensor& tensor, std::int64_t first,
                                std::int64_t count) const {
  BASCULE_CHECK(first >= 0 && count >= 0 && count <= element_count(tensor.shape) - first);
  const Status status = try_read_float32(destination, tensor, first, count);
  if (!status.ok()) throw Error{ErrorKind::kData, path_of(tensor) + ": " + tensor.name, read_problem(status), ""};
}

void TensorSource::read_bytes(void* destination, const StoredTensor& tensor) const {
  const auto width = static_cast<std::int64_t>(element_bytes(tensor.dtype));
  const std::int64_t count = element_count(tensor.shape);
  for (std::int64_t index = 0; index < count;) {
    const std::int64_t run = contiguous_run(tensor, index, count - index);
    files_[tensor.file].read(static_cast<unsigned char*>(destination) + index * width, byte_position(tensor, index),
                             static_cast<std::size_t>(run * width));
    index += run;
  }
}

}  // namespace bascule
