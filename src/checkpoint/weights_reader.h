// SPDX-License-Identifier: Apache-2.0
// Weights of a checkpoint read back into the memory that they were written from, after the seal: where each tensor lies
// in the files is known from the plan by which they were written. Nothing is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/checkpoint/hf_write.h"
#include "src/files/durable_write.h"

namespace bascule {

class WeightsReader {
 public:
  // Before the seal. Reads only those tensors of `plan` that lie in `memory`.
  WeightsReader(const HfFolderPlan& plan, Span<float> memory);

  // Fills them from a folder that a plan of the same tensors wrote. kReadFailed {kUnreadable, errno}, errno being 0
  // where the files are others; the memory is then of no use.
  Status read(const char* folder, WriteProgress progress = {}) const noexcept;

  static constexpr std::int64_t kUnreadable = -2;  // no row of a manifest, which other failed reads name here

 private:
  struct Piece {
    std::int64_t offset = 0;  // in the file
    char* to = nullptr;
    std::int64_t bytes = 0;
  };
  struct File {
    std::string name;
    std::string header;  // as it was written
    std::int64_t bytes = 0;
    std::vector<Piece> pieces;
  };

  Status read_file(const File& file, int descriptor, WriteProgress progress) const noexcept;

  std::vector<File> files_;
};

}  // namespace bascule
