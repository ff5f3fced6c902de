// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/weights_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace bascule {
namespace {

constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;  // read between two heartbeats

Status failed(int error) noexcept { return {StatusCode::kReadFailed, {WeightsReader::kUnreadable, error}}; }

Status read_exactly(int descriptor, char* to, std::int64_t bytes, std::int64_t offset) noexcept {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, to, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failed(got < 0 ? errno : 0);
    to += got;
    offset += got;
    bytes -= got;
  }
  return ok_status();
}

Status check_header(int descriptor, const std::string& header) noexcept {
  char block[4096];
  for (std::size_t at = 0; at < header.size(); at += sizeof block) {
    const std::size_t part = std::min(header.size() - at, sizeof block);
    BASCULE_TRY(read_exactly(descriptor, block, static_cast<std::int64_t>(part), static_cast<std::int64_t>(at)));
    if (std::memcmp(block, header.data() + at, part) != 0) return failed(0);
  }
  return ok_status();
}

}  // namespace

WeightsReader::WeightsReader(const HfFolderPlan& plan, Span<float> memory) {
  for (const HfFolderPlan::Shard& shard : plan.shards()) {
    File file;
    file.name = shard.name;
    file.header = shard.plan.header();
    file.bytes = shard.plan.file_bytes();
    std::int64_t offset = static_cast<std::int64_t>(file.header.size());
    for (const TensorToWrite& tensor : shard.plan.tensors()) {
      const std::int64_t bytes = element_count(tensor.shape) * static_cast<std::int64_t>(element_bytes(tensor.dtype));
      const float* const from = static_cast<const float*>(tensor.data);
      if (from >= memory.begin() && from < memory.end()) {
        float* const to = memory.data() + (from - memory.begin());
        file.pieces.push_back({offset, static_cast<char*>(static_cast<void*>(to)), bytes});
      }
      offset += bytes;
    }
    files_.push_back(std::move(file));
  }
}

Status WeightsReader::read_file(const File& file, int descriptor, WriteProgress progress) const noexcept {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return failed(errno);
  if (about.st_size != file.bytes) return failed(0);
  BASCULE_TRY(check_header(descriptor, file.header));
  for (const Piece& piece : file.pieces) {
    for (std::int64_t at = 0; at < piece.bytes; at += kPartBytes) {
      const std::int64_t part = std::min(kPartBytes, piece.bytes - at);
      BASCULE_TRY(read_exactly(descriptor, piece.to + at, part, piece.offset + at));
      if (progress.tell != nullptr) progress.tell(progress.context, part);
    }
  }
  return ok_status();
}

Status WeightsReader::read(const char* folder, WriteProgress progress) const noexcept {
  PathBuffer path(folder);
  path.append("/");
  const std::size_t start = path.length();
  for (const File& file : files_) {
    path.cut(start);
    const Descriptor opened(::open(path.append(file.name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened.is_open()) return failed(errno);
    BASCULE_TRY(read_file(file, opened.number(), progress));
  }
  return ok_status();
}

}  // namespace bascule
