// SPDX-License-Identifier: Apache-2.0
#include "src/index/picture_digests.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "src/base/digest.h"
#include "src/index/picture_digest.h"
#include "src/index/picture_folder.h"

namespace bascule {
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
