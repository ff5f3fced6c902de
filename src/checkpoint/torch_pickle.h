// SPDX-License-Identifier: Apache-2.0
// pytorch_model.bin, as torch.save has written it since PyTorch 1.6: a zip of stored entries, one of which is a pickle
// of an ordered dictionary of tensors. Nothing is executed: a closed list of pickle opcodes and of globals is
// interpreted, anything else is refused by its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/checkpoint/tensor_source.h"

namespace bascule {

// Where the tensors of the file lie; Error{kData} for every fault, and for files of torch older than 1.6.
std::vector<StoredTensor> read_torch_archive(const InputFile& file, std::size_t file_index = 0);

// Where the entries of a zip archive lie. Only what torch.save writes: stored (not compressed), not encrypted, one
// disk; zip64 for large files.

struct ZipEntry {
  std::int64_t offset = 0;  // of the first byte of its content in the file
  std::int64_t bytes = 0;
};

// Names and places of all entries, checked to lie within the file. Error{kData} for everything else, a file cut short
// included.
std::map<std::string, ZipEntry> read_zip_entries(const InputFile& file);

}  // namespace bascule
