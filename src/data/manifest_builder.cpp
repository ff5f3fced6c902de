// SPDX-License-Identifier: Apache-2.0
#include "src/data/manifest_builder.h"

#include <xxhash.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "src/base/error.h"
#include "src/data/utf8.h"

namespace bascule {
namespace {

constexpr std::uint32_t kFree = std::numeric_limits<std::uint32_t>::max();  // also: one more than the most pictures

}  // namespace

ManifestBuilder::ManifestBuilder(std::string file, std::string folder) : slots_(1024, kFree) {
  manifest_.file_ = std::move(file);
  manifest_.folder_ = std::move(folder);
  manifest_.path_begin_.push_back(0);
}

void ManifestBuilder::add(std::string_view image_path, std::string_view caption, int label, std::int64_t line) {
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    return Error{ErrorKind::kData, manifest_.file_ + ":" + std::to_string(line), what, what_to_do};
  };
  if (line > std::numeric_limits<std::uint32_t>::max()) throw refuse("too many lines", "split the manifest");
  if (image_path.empty()) throw refuse("the picture's path is empty", "");
  if (image_path.find('\0') != std::string_view::npos) throw refuse("the picture's path holds a zero byte", "");
  const std::size_t invalid = first_invalid_utf8(caption);
  if (invalid < caption.size()) {
    throw refuse("byte " + std::to_string(invalid) + " of the caption is not UTF-8", "write the manifest in UTF-8");
  }
  manifest_.captions_.append(caption);
  manifest_.caption_end_.push_back(manifest_.captions_.size());
  manifest_.longest_caption_bytes_ = std::max(manifest_.longest_caption_bytes_, caption.size());
  manifest_.image_of_row_.push_back(image_id(image_path));
  manifest_.line_.push_back(static_cast<std::uint32_t>(line));
  if (label >= 0) manifest_.labels_.push_back(static_cast<std::uint8_t>(label));
}

std::uint32_t ManifestBuilder::image_id(std::string_view path) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = XXH3_64bits(path.data(), path.size()) & mask;
  for (; slots_[i] != kFree; i = (i + 1) & mask) {
    if (manifest_.image_path(slots_[i]) == path) return slots_[i];
  }
  const auto id = static_cast<std::uint32_t>(manifest_.pictures());
  if (id == kFree) throw Error{ErrorKind::kData, manifest_.file_, "too many pictures", "split the manifest"};
  slots_[i] = id;
  manifest_.paths_.append(path);
  manifest_.paths_.push_back('\0');
  manifest_.path_begin_.push_back(manifest_.paths_.size());
  if (2 * manifest_.path_begin_.size() > slots_.size()) grow_slots();
  return id;
}

void ManifestBuilder::grow_slots() {
  slots_.assign(2 * slots_.size(), kFree);
  const std::size_t mask = slots_.size() - 1;
  for (std::int64_t id = 0; id < manifest_.pictures(); ++id) {
    const std::string_view path = manifest_.image_path(id);
    std::size_t i = XXH3_64bits(path.data(), path.size()) & mask;
    while (slots_[i] != kFree) i = (i + 1) & mask;
    slots_[i] = static_cast<std::uint32_t>(id);
  }
}

Manifest ManifestBuilder::finish(std::uint64_t digest) {
  if (manifest_.rows() == 0) throw Error{ErrorKind::kData, manifest_.file_, "no rows", "give at least one"};
  manifest_.digest_ = digest;
  manifest_.captions_.shrink_to_fit();
  manifest_.paths_.shrink_to_fit();
  manifest_.caption_end_.shrink_to_fit();
  manifest_.image_of_row_.shrink_to_fit();
  manifest_.line_.shrink_to_fit();
  manifest_.labels_.shrink_to_fit();
  manifest_.path_begin_.shrink_to_fit();
  return std::move(manifest_);
}

}  // namespace bascule
