// SPDX-License-Identifier: Apache-2.0
// Walks through a tar file once, from front to back: ustar, pax (path and size), GNU long names, old tar. Contents are
// read only where they are asked for. Before the seal.
//
//   TarReader tar("shard-000.tar");
//   TarMember member;
//   while (tar.next(&member)) {
//     if (ends_with(member.name, ".txt")) caption = tar.contents(member);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/base/span.h"

namespace bascule {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its contents in the file
  std::uint64_t bytes = 0;
};

class TarReader : NonCopyable {
 public:
  // Throws Error (kData) if the file cannot be opened.
  explicit TarReader(const std::string& path);

  // The next member that is a file (folders, links and devices are skipped); false after the mark of the end.
  // Throws Error (kData) naming the member: a header whose checksum is wrong, a member that goes beyond the end, a file
  // without mark of the end or with more behind it, a sparse file, names and numbers that cannot be.
  bool next(TarMember* member);
  // The contents of the member that next() gave last, or of one before it. The view holds until the next call of
  // either. Throws Error (kData) for more than 16 MiB.
  std::string_view contents(const TarMember& member);
  std::uint64_t bytes() const { return bytes_; }

 private:
  const unsigned char* window(std::uint64_t offset, std::size_t bytes);
  // Takes the header block at next_ apart. False: it is zero.
  bool read_header(TarMember* member, char* type);
  void read_pax(const TarMember& records);
  void check_end();
  void forget_overrides();
  Error damaged(const std::string& what, const std::string& what_to_do = "") const;

  std::string path_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
  std::uint64_t next_ = 0;  // where the next header stands
  std::string last_name_;   // for messages
  std::vector<unsigned char> window_;
  std::uint64_t window_begin_ = 0;
  std::size_t window_bytes_ = 0;
  // From extended headers, for the next member.
  std::string long_name_;
  bool has_size_ = false;
  std::uint64_t size_ = 0;
};

}  // namespace bascule
