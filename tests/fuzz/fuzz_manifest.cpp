// SPDX-License-Identifier: Apache-2.0
// Any file is rows, or one Error. The first byte chooses the format.
#include <cstdint>

#include "src/base/error.h"
#include "src/index/manifest.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const char* const kSuffixes[] = {".jsonl", ".json", ".csv", ".tsv"};
  if (size == 0) return 0;
  try {
    ManifestColumns columns;
    if ((data[0] & 4) != 0) columns.label = "label";
    const Manifest manifest = Manifest::load(fuzz::as_file(data + 1, size - 1, kSuffixes[data[0] & 3]), columns);
    fuzz::require(manifest.rows() > 0);
    for (std::int64_t row = 0; row < manifest.rows(); ++row) {
      fuzz::require(manifest.row(row).text.size() <= manifest.longest_text_bytes());
      fuzz::require(manifest.image_id(row) < manifest.pictures());
    }
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kData);
  }
  return 0;
}

}  // namespace bascule
