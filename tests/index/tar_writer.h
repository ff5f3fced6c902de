// SPDX-License-Identifier: Apache-2.0
// Tar files made by hand, byte by byte, so that each thing that can be wrong with one can be.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace bascule::test {

constexpr std::size_t kTarBlock = 512;

// Writes the sum of a header's bytes, the field itself counted as blanks.
inline void seal_header(std::string* tar, std::size_t at) {
  tar->replace(at + 148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) sum += static_cast<unsigned char>((*tar)[at + i]);
  char text[16];
  std::snprintf(text, sizeof text, "%06o", sum);
  tar->replace(at + 148, 7, std::string(text) + '\0');
}

// Up to the next block.
inline void fill_block(std::string* tar) { tar->resize((tar->size() + kTarBlock - 1) / kTarBlock * kTarBlock); }

struct TarEntry {
  char type = '0';
  std::string prefix;     // of ustar
  std::string size_text;  // in place of the contents' true size
  std::string magic = std::string("ustar\0", 6) + "00";
};

// Appends a header and its contents; returns where the header stands.
inline std::size_t add_member(std::string* tar, const std::string& name, const std::string& contents,
                              const TarEntry& entry = {}) {
  const std::size_t at = tar->size();
  tar->resize(at + kTarBlock);
  char size[16];
  std::snprintf(size, sizeof size, "%011zo", contents.size());
  const std::string size_text = entry.size_text.empty() ? std::string(size) : entry.size_text;
  tar->replace(at, name.size(), name);
  tar->replace(at + 100, 7, "0000644");
  tar->replace(at + 124, size_text.size(), size_text);
  tar->replace(at + 136, 11, "00000000000");
  (*tar)[at + 156] = entry.type;
  tar->replace(at + 257, entry.magic.size(), entry.magic);
  tar->replace(at + 345, entry.prefix.size(), entry.prefix);
  seal_header(tar, at);
  *tar += contents;
  fill_block(tar);
  return at;
}

inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

inline void add_pax(std::string* tar, const std::string& records, char type = 'x') {
  TarEntry entry;
  entry.type = type;
  add_member(tar, "PaxHeaders/0", records, entry);
}

inline void add_long_name(std::string* tar, const std::string& name) {
  TarEntry entry;
  entry.type = 'L';
  entry.magic = "ustar  ";
  add_member(tar, "././@LongLink", name + '\0', entry);
}

inline std::string with_end(std::string tar) { return tar.append(2 * kTarBlock, '\0'); }

}  // namespace bascule::test
