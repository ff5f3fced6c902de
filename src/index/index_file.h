// SPDX-License-Identifier: Apache-2.0
// The index of a manifest as a file: a header, then its tables, each on a 64-byte bound. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/index/manifest.h"

namespace bascule {

// The sources of an index: a change to any of them makes the index void.
struct IndexSource {
  std::uint64_t name_digest = 0;   // paths and columns
  std::uint64_t state_digest = 0;  // size, time of change and inode of every file
  bool operator==(const IndexSource& other) const {
    return name_digest == other.name_digest && state_digest == other.state_digest;
  }
};

// An index as it is used: mapped from its file, which others may change at any time, or read into memory of this
// process.
class IndexMapping : NonCopyable {
 public:
  // Takes the mapping and the open file over; no file: the mapping is memory of this process.
  IndexMapping(std::string path, const IndexSource& source, Descriptor file, void* data, std::size_t bytes)
      : path_(std::move(path)), source_(source), file_(std::move(file)), data_(data), bytes_(bytes) {}
  ~IndexMapping();

  const std::string& path() const { return path_; }
  const IndexSource& source() const { return source_; }
  bool is_own() const { return !file_.is_open(); }
  const unsigned char* data() const { return static_cast<const unsigned char*>(data_); }
  std::size_t bytes() const { return bytes_; }
  // Reads all of it: whether the tables are those that were written.
  bool is_whole() const;
  // The file read into memory of this process; null where it no longer has that many bytes or cannot be read. Throws
  // Error (kMemory).
  std::unique_ptr<IndexMapping> read() const;

 private:
  std::string path_;
  IndexSource source_;
  Descriptor file_;
  void* data_;
  std::size_t bytes_;
};

class IndexFile {
 public:
  // The manifest of those files, or nothing where there is none, it is of another source or version, or damaged.
  static std::optional<Manifest> open(const std::string& path, const IndexSource& source, const DataFiles& files);
  // Manifest::read_into_memory() for a mapped manifest; the file stays.
  static bool read_into_memory(Manifest* manifest);
  // Whole or not at all, and by one process at a time. Returns an empty text, or the reason why it was not written. A
  // measured manifest.
  static std::string write(const std::string& path, const IndexSource& source, const Manifest& manifest);
};

}  // namespace bascule
