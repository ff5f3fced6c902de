// SPDX-License-Identifier: Apache-2.0
// Any bytes are a shard with rows whose pictures can be read, or one Error. Half of the inputs get headers with the
// right sums, so that what is behind a sum is reached.
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/index/glob.h"
#include "src/index/manifest.h"
#include "src/index/picture_folder.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/index/tar_writer.h"

namespace bascule {
namespace {

void read_all(const std::string& path, const ManifestColumns& columns) {
  const Manifest manifest = Manifest::load(path, columns);
  const PictureFolder folder(manifest);
  std::vector<std::uint8_t> memory(folder.largest_file_bytes() + 1);
  std::size_t bytes = 0;
  fuzz::require(manifest.rows() > 0);
  for (std::int64_t row = 0; row < manifest.rows(); ++row) {
    fuzz::require(manifest.row(row).text.size() <= manifest.longest_text_bytes());
    fuzz::require(folder.read(row, Span<std::uint8_t>(memory), &bytes) == 0);
  }
}

// Names are as short as an input; what they stand for need not be.
void expand(std::string_view name) {
  try {
    fuzz::require(!expand_shards(std::string(name)).empty());
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kSettings);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string tar(fuzz::as_text(data + 1, size - 1));
  if (size < 64) expand(tar);
  if ((data[0] & 1) != 0) {
    for (std::size_t at = 0; at + test::kTarBlock <= tar.size(); at += test::kTarBlock) {
      if (tar.compare(at + 257, 5, "ustar") == 0) test::seal_header(&tar, at);
    }
  }
  ManifestColumns columns;
  if ((data[0] & 2) != 0) columns.label = "label";
  try {
    const auto* const bytes = static_cast<const std::uint8_t*>(static_cast<const void*>(tar.data()));
    read_all(fuzz::as_file(bytes, tar.size(), ".tar"), columns);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kData);
  }
  return 0;
}

}  // namespace bascule
