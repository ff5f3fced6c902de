// SPDX-License-Identifier: Apache-2.0
// Where the entries of a zip archive lie. Only what torch.save writes: stored (not compressed), not encrypted, one
// disk; zip64 for large files. Before the seal.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/checkpoint/tensor_source.h"

namespace bascule {

struct ZipEntry {
  std::int64_t offset = 0;  // of the first byte of its content in the file
  std::int64_t bytes = 0;
};

// Names and places of all entries, checked to lie within the file. Error{kData} for everything else, a file cut short
// included.
std::map<std::string, ZipEntry> read_zip_entries(const InputFile& file);

}  // namespace bascule
