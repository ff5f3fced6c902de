// SPDX-License-Identifier: Apache-2.0
// The index of a manifest as a file: a header, then its tables, each on a 64-byte bound. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/data/manifest.h"

namespace bascule {

// A file mapped for reading, for as long as this lives.
class IndexMapping {
 public:
  // Takes the mapping over.
  IndexMapping(std::string path, void* data, std::size_t bytes) : path_(std::move(path)), data_(data), bytes_(bytes) {}
  ~IndexMapping();
  IndexMapping(const IndexMapping&) = delete;
  IndexMapping& operator=(const IndexMapping&) = delete;

  const std::string& path() const { return path_; }
  const unsigned char* data() const { return static_cast<const unsigned char*>(data_); }
  std::size_t bytes() const { return bytes_; }
  // Reads all of it: whether the tables are those that were written.
  bool is_whole() const;

 private:
  std::string path_;
  void* data_;
  std::size_t bytes_;
};

// What an index was made from: a change of any of it makes the index void.
struct IndexSource {
  std::uint64_t name_digest = 0;   // paths and columns
  std::uint64_t state_digest = 0;  // size, time of change and inode of every file
  bool operator==(const IndexSource& other) const {
    return name_digest == other.name_digest && state_digest == other.state_digest;
  }
};

class IndexFile {
 public:
  // The manifest of that file, or nothing where there is none, it is of another source or version, or damaged.
  // shards: as the manifest is to have them.
  static std::optional<Manifest> open(const std::string& path, const IndexSource& source, const std::string& file,
                                      const std::string& folder, const std::vector<std::string>& shards);
  // Whole or not at all, and by one process at a time. Returns an empty text, or why it is not there. A measured
  // manifest.
  static std::string write(const std::string& path, const IndexSource& source, const Manifest& manifest);
};

}  // namespace bascule
