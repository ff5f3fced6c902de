// SPDX-License-Identifier: Apache-2.0
#include "src/index/picture_folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

// Beside shards: settings, logs, checkpoints, libraries.
constexpr ::rlim_t kOtherFiles = 64;

// Reads until the file ends or the memory is full. 0 or errno.
int read_all(int file, Span<std::uint8_t> memory, std::size_t* bytes) noexcept {
  *bytes = 0;
  while (*bytes < memory.size()) {
    const ::ssize_t got = ::read(file, memory.data() + *bytes, memory.size() - *bytes);
    if (got == 0) return 0;
    if (got < 0 && errno != EINTR) return errno;
    if (got > 0) *bytes += static_cast<std::size_t>(got);
  }
  return EFBIG;
}

// As many more open files as the system allows this process, where it has set it fewer.
void allow_open_files(std::size_t more) {
  ::rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  if (more + kOtherFiles <= 256 && limit.rlim_cur >= 1024) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Error too_few_open_files(const std::string& path, std::size_t shards) {
  ::rlimit limit = {};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string others = "up to " + std::to_string(kOtherFiles) + " for settings, logs, checkpoints and libraries";
  return Error{ErrorKind::kData, path,
               "the limit of " + std::to_string(limit.rlim_cur) + " open files is too low: the run needs " +
                   (shards > 0 ? "one for each of " + count_of(shards, "shard") + ", and " : "") + others,
               advice_for_open(EMFILE) + std::string(shards > 0 ? ", or use fewer, larger shards" : ""), EMFILE};
}

}  // namespace

PictureFolder::PictureFolder(const Manifest& manifest) : manifest_(manifest) {
  const auto add = [&](const std::string& path, int file) {
    if (file >= 0) {
      open_.emplace_back(file);
      return;
    }
    const int reason = -file;
    if (reason == EMFILE || reason == ENFILE) {
      throw too_few_open_files(path, manifest.shards().size());
    }
    throw Error{ErrorKind::kData, path, file_problem(reason)};
  };
  open_.reserve(std::max<std::size_t>(1, manifest.shards().size()));
  if (manifest.shards().empty()) {
    // O_PATH: a folder that pictures lie below need not be readable itself.
    const int folder = ::open(manifest.folder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    add(manifest.folder(), folder < 0 ? -errno : folder);
  }
  allow_open_files(manifest.shards().size());
  for (const std::string& shard : manifest.shards()) add(shard, open_regular_file(AT_FDCWD, shard.c_str()));
}

// Pictures are numbered in order of first use, so the row that uses the next number names a picture for the first time.
std::size_t PictureFolder::largest_file_bytes() const {
  if (manifest_.is_measured()) return manifest_.largest_picture_bytes();
  std::size_t largest = 0;
  std::int64_t seen = 0;
  for (std::int64_t row = 0; row < manifest_.rows(); ++row) {
    if (manifest_.image_id(row) != seen) continue;
    const std::int64_t picture = seen++;
    struct stat facts = {};
    const bool found = ::fstatat(open_[0].number(), manifest_.image_path(picture).data(), &facts, 0) == 0;
    if (!found || !S_ISREG(facts.st_mode)) {
      const std::string reason = found ? "not a file" : std::generic_category().message(errno);
      manifest_.refuse_picture(row, reason);
    }
    largest = std::max(largest, static_cast<std::size_t>(facts.st_size));
  }
  return largest;
}

int PictureFolder::read_picture(std::int64_t id, Span<std::uint8_t> memory, std::size_t* bytes) const noexcept {
  if (!manifest_.shards().empty()) return read_from_shard(manifest_.place(id), memory, bytes);
  const int file = open_regular_file(open_[0].number(), manifest_.image_path(id).data());
  if (file < 0) return -file;
  const Descriptor owner(file);
  return read_all(file, memory, bytes);
}

int PictureFolder::read_from_shard(const PicturePlace& place, Span<std::uint8_t> memory,
                                   std::size_t* bytes) const noexcept {
  *bytes = 0;
  if (place.bytes >= memory.size()) return EFBIG;
  if (place.shard >= open_.size()) return EIO;
  while (*bytes < place.bytes) {
    const ::ssize_t got = ::pread(open_[place.shard].number(), memory.data() + *bytes, place.bytes - *bytes,
                                  static_cast<::off_t>(place.offset + *bytes));
    if (got == 0) return ENODATA;
    if (got < 0 && errno != EINTR) return errno;
    if (got > 0) *bytes += static_cast<std::size_t>(got);
  }
  return 0;
}

std::uint64_t picture_digest(const void* file, std::size_t bytes) noexcept {
  const std::uint64_t digest = digest_of(file, bytes);
  return digest != 0 ? digest : 1;
}

namespace {

// Raised when the digest of the same picture is another.
constexpr std::uint64_t kDigestsFormat = 2;

std::vector<std::uint64_t> read_pictures(const Manifest& manifest) {
  std::vector<std::uint64_t> digests;
  const PictureFolder folder(manifest);
  std::vector<std::uint8_t> memory(folder.largest_file_bytes() + 1);
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    const std::int64_t picture = manifest.image_id(row);
    if (picture < static_cast<std::int64_t>(digests.size())) continue;  // numbered in order of first use
    if (manifest.is_missing(row)) {
      const std::string_view path = manifest.image_path(picture);
      digests.push_back(digest_of(path.data(), path.size()));
      continue;
    }
    std::size_t bytes = 0;
    const int reason = folder.read_picture(picture, Span<std::uint8_t>(memory), &bytes);
    if (reason != 0) manifest.refuse_picture(row, "cannot be read: " + std::generic_category().message(reason));
    digests.push_back(picture_digest(memory.data(), bytes));
  }
  return digests;
}

// Pictures that are exchanged for others of the same size: who does so touches the manifest, as for its index. A folder
// of classes has no manifest.
void add_state(Digest* key, const Manifest& manifest) {
  const DataFiles& files = manifest.files();
  if (const std::optional<std::uint64_t> state = state_digest(files)) return key->add_number(*state);
  for (std::int64_t id = 0; id < manifest.pictures(); ++id) {
    const std::filesystem::path file = std::filesystem::path(files.folder) / manifest.image_path(id);
    struct stat facts = {};
    if (::stat(file.c_str(), &facts) != 0) continue;  // its reader says so
    for (const auto number : {facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec})
      key->add_number(static_cast<std::uint64_t>(number));
    key->add_number(static_cast<std::uint64_t>(facts.st_ino));
  }
}

std::uint64_t key_of(const Manifest& manifest) {
  Digest key;
  add_state(&key, manifest);
  for (const std::uint64_t number :
       {kDigestsFormat, manifest.data_digest(), static_cast<std::uint64_t>(manifest.pictures())})
    key.add_number(number);
  return key.value();
}

// Named by the paths of the manifests or shards: data that changes leaves no record behind.
std::string record_path(const IndexCache& cache, const DataFiles& files) {
  Digest paths;
  const auto add = [&](const std::string& path) {
    std::error_code failed;
    const std::string absolute = std::filesystem::absolute(path, failed).lexically_normal().string();
    paths.add(absolute.c_str(), absolute.size() + 1);
  };
  for (const DataFile& file : files.manifests) add(file.path);
  for (const std::string& shard : files.shards) add(shard);
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx.pictures", static_cast<unsigned long long>(paths.value()));
  return cache.folder + name;
}

// The cached answer: the digests, the key, and the digest of all of these.
std::vector<std::uint64_t> read_record(const std::string& path, std::uint64_t key, std::size_t pictures) {
  std::vector<std::uint64_t> record(pictures + 2);
  std::ifstream file(path, std::ios::binary);
  const auto bytes = static_cast<std::streamsize>(record.size() * sizeof record[0]);
  if (!file.read(static_cast<char*>(static_cast<void*>(record.data())), bytes)) return {};
  if (record[pictures] != key || record.back() != digest_of(record.data(), (pictures + 1) * sizeof record[0]))
    return {};
  record.resize(pictures);
  return record;
}

// Half a record is no record, and two processes write the same. One that cannot be written is made again by the next
// run.
void write_record(const IndexCache& cache, const std::string& path, std::uint64_t key,
                  std::vector<std::uint64_t> record) {
  record.push_back(key);
  record.push_back(digest_of(record.data(), record.size() * sizeof record[0]));
  std::error_code ignored;
  std::filesystem::create_directories(cache.folder, ignored);
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(static_cast<const void*>(record.data())),
             static_cast<std::streamsize>(record.size() * sizeof record[0]));
  file.close();
  if (!file) std::filesystem::remove(path, ignored);
}

}  // namespace

std::vector<std::uint64_t> picture_digests(const Manifest& manifest, const IndexCache& cache) {
  const bool is_cached =
      !cache.folder.empty() && manifest.rows() >= cache.smallest_rows && manifest.missing_pictures() == 0;
  if (!is_cached) return read_pictures(manifest);
  const std::uint64_t key = key_of(manifest);
  const std::string path = record_path(cache, manifest.files());
  std::vector<std::uint64_t> digests = read_record(path, key, static_cast<std::size_t>(manifest.pictures()));
  if (digests.empty()) {
    digests = read_pictures(manifest);
    write_record(cache, path, key, digests);
  }
  return digests;
}

}  // namespace bascule
