// SPDX-License-Identifier: Apache-2.0
#include "src/session/tensor_hashes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/json/json.h"

namespace bascule {
namespace {

struct Shape {
  std::size_t tensors = 0, trained = 0, parts = 0;
  // Its number, its division, its hashes, their checksum.
  std::size_t words_of_update() const { return 1 + 3 + tensors + trained + 1; }
};

// Without a list, as layouts are planned that no machine could hold. A tensor's end cuts a block in two at most.
Shape shape_of(const ParameterSet& set, const ParameterLayout& layout) {
  Shape shape;
  for (int p = 0; p < set.size(); ++p) {
    shape.tensors += set[p].pieces.size();
    if (set[p].trained) shape.trained += set[p].pieces.size();
  }
  shape.parts = block_count(layout) + shape.trained;
  return shape;
}

std::uint64_t hash_of(const float* values, std::int64_t count) noexcept {
  return digest_of(values, static_cast<std::size_t>(count) * sizeof(float));
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(ErrorKind::kDisk, path, std::string(what) + ": " + std::strerror(errno), advice_for_disk(errno));
}

Descriptor open_or_create(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) fail(path, "cannot be opened");
  return file;
}

bool begins_with(const Descriptor& file, const std::string& line) {
  std::string found(line.size(), '\0');
  return ::pread(file.number(), found.data(), found.size(), 0) == static_cast<ssize_t>(line.size()) && found == line;
}

// Beside it, under the first name that is free.
std::string move_aside(const std::string& path) {
  int number = 1;
  const auto name = [&] { return path + "." + std::to_string(number); };
  while (::access(name().c_str(), F_OK) == 0) ++number;
  if (::rename(path.c_str(), name().c_str()) != 0) fail(path, "cannot be renamed");
  return name();
}

}  // namespace

std::uint64_t update_checksum(Span<const std::uint64_t> words) noexcept {
  return digest_of(words.data(), (words.size() - 1) * sizeof(std::uint64_t));
}

std::size_t TensorHashes::bytes(const ParameterSet& set, const ParameterLayout& layout) {
  const Shape shape = shape_of(set, layout);
  return (2 * shape.parts + kRingUpdates * shape.words_of_update()) * sizeof(std::uint64_t);
}

TensorHashes::TensorHashes(const ParameterMemory& parameters, Span<std::byte> memory) {
  const ParameterSet& set = *parameters.set;
  const ParameterLayout& layout = *parameters.layout;
  const Shape shape = shape_of(set, layout);
  BASCULE_CHECK(memory.size() >= bytes(set, layout));
  struct HashedRange {
    std::int64_t offset, count;
    std::size_t tensor;
  };
  std::vector<HashedRange> ranges;
  for (int p = 0; p < set.size(); ++p) {
    for (const ParameterPiece& piece : set[p].pieces) {
      if (set[p].trained) {
        const std::int64_t begin = layout.places[static_cast<std::size_t>(p)].offset;
        ranges.push_back({begin + piece.first_element, piece.elements, tensors_.size()});
      }
      tensors_.push_back({piece.name, piece.elements, 0, 0, 0});
      if (!set[p].trained) tensors_.back().fixed = hash_of(parameters.at(p) + piece.first_element, piece.elements);
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const HashedRange& a, const HashedRange& b) { return a.offset < b.offset; });
  std::size_t range = 0;
  for (const UpdateBlock& block : cut_into_blocks(layout)) {
    first_part_.push_back(parts_.size());
    const std::int64_t end = block.offset + block.count;
    for (; range < ranges.size() && ranges[range].offset < end; ++range) {
      const HashedRange& one = ranges[range];
      Tensor& tensor = tensors_[one.tensor];
      if (tensor.count++ == 0) {
        tensor.first = parts_.size();
        by_gradient_.push_back(one.tensor);
      }
      const std::int64_t from = std::max(one.offset, block.offset), to = std::min(one.offset + one.count, end);
      parts_.push_back({from, to - from});
      if (one.offset + one.count > end) break;  // the rest of it lies in the next block
    }
  }
  first_part_.push_back(parts_.size());
  BASCULE_CHECK(parts_.size() <= shape.parts && by_gradient_.size() == shape.trained);
  auto* const words = static_cast<std::uint64_t*>(static_cast<void*>(memory.data()));
  values_ = {words, parts_.size()};
  gradients_ = {words + shape.parts, parts_.size()};
  words_of_update_ = shape.words_of_update();
  ring_ = {words + 2 * shape.parts, kRingUpdates * words_of_update_};
}

std::string TensorHashes::header() const {
  Json values = Json::array(), elements = Json::array(), gradients = Json::array();
  for (const Tensor& tensor : tensors_) {
    values.push_back(tensor.name);
    elements.push_back(tensor.elements);
  }
  for (const std::size_t tensor : by_gradient_) gradients.push_back(tensors_[tensor].name);
  Json header = {{"format", kTensorHashesFormat}, {"values", values}, {"elements", elements}, {"gradients", gradients}};
  if (division_.of_piece > 0) header[kSamplesOfPiece] = division_.of_piece;
  return json_text(header) + "\n";
}

std::string TensorHashes::open(const std::string& folder, std::int64_t step, const UpdateDivision& division) {
  division_ = division;
  const std::string path = folder + "/" + kTensorHashesFile, first_line = header();
  file_ = open_or_create(path);
  const auto begin = static_cast<off_t>(first_line.size());
  off_t end = begin;
  const bool goes_on = step > 0 && begins_with(file_, first_line) && find_end(step, &end);
  std::string kept;
  if (step > 0 && !goes_on && ::lseek(file_.number(), 0, SEEK_END) > 0) {
    kept = move_aside(path);
    file_ = open_or_create(path);
  }
  if (::ftruncate(file_.number(), goes_on ? end : 0) != 0 || ::lseek(file_.number(), 0, SEEK_END) < 0)
    fail(path, "cannot be cut to the updates of the checkpoint");
  if (!goes_on) throw_if_failed(write_all(file_.number(), first_line.data(), first_line.size()), path, "writing");
  return kept;
}

bool TensorHashes::find_end(std::int64_t step, off_t* end) const {
  std::vector<std::uint64_t> words(words_of_update_);
  const std::size_t bytes = words.size() * sizeof words[0];
  // The last one may be cut short.
  while (::pread(file_.number(), words.data(), bytes, *end) == static_cast<ssize_t>(bytes)) {
    if (words.back() != update_checksum({words.data(), words.size()})) return false;
    if (static_cast<std::int64_t>(words.front()) > step) break;
    *end += static_cast<off_t>(bytes);
  }
  return true;
}

void TensorHashes::see(std::size_t block, const float* values, const float* gradients) const noexcept {
  const std::size_t first = first_part_[block];
  for (std::size_t i = first; i < first_part_[block + 1]; ++i) {
    const std::int64_t from = parts_[i].offset - parts_[first].offset;  // a block begins with its first part
    values_[i] = hash_of(values + from, parts_[i].count);
    gradients_[i] = hash_of(gradients + from, parts_[i].count);
  }
}

Status TensorHashes::keep(std::int64_t step) noexcept {
  if ((kept_ + 1) * words_of_update_ > ring_.size()) BASCULE_TRY(flush());
  const Span<std::uint64_t> update = ring_.subspan(kept_++ * words_of_update_, words_of_update_);
  std::uint64_t* word = update.data();
  for (const std::int64_t number : {step, division_.ranks, division_.samples, division_.micro_batches})
    *word++ = static_cast<std::uint64_t>(number);
  const auto whole = [](Span<std::uint64_t> hashes, const Tensor& tensor) {
    return digest_of(hashes.data() + tensor.first, tensor.count * sizeof(std::uint64_t));
  };
  for (const Tensor& tensor : tensors_) *word++ = tensor.count == 0 ? tensor.fixed : whole(values_, tensor);
  for (const std::size_t tensor : by_gradient_) *word++ = whole(gradients_, tensors_[tensor]);
  *word = update_checksum(update);
  return ok_status();
}

Status TensorHashes::flush() noexcept {
  const std::size_t words = kept_ * words_of_update_;
  kept_ = 0;
  const Status written = write_all(file_.number(), ring_.data(), words * sizeof(std::uint64_t));
  has_failed_ = has_failed_ || !written.ok();
  return written;
}

Status TensorHashes::sync() noexcept {
  BASCULE_TRY(flush());
  if (::fdatasync(file_.number()) == 0) return ok_status();
  has_failed_ = true;
  return {StatusCode::kDiskFailed, {errno, 0}};
}

}  // namespace bascule
