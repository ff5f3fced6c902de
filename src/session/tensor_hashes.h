// SPDX-License-Identifier: Apache-2.0
// Hashes of every tensor in every N-th update (report.hash_steps): of its value as the update's forward part read it,
// and, where it is trained, of its gradient, summed over all ranks and before clipping. Two runs that should be equal
// are compared by them: src/finish/judge_repeat.h.
//
// A tensor is hashed in parts, its share of each block of the update, by whichever thread and rank updates the block;
// the tensor's hash is that of the hashes of its parts in order. So it depends on neither threads nor on which rank
// updates what; the gradients' bits themselves depend on how the update was divided (UpdateDivision).
// Rank 0 keeps updates in a ring, and appends them to output_dir/tensor_hashes.bin when that is full and before each
// checkpoint. The file: one line of JSON, which names the tensors in the order of the tape (values as the forward part
// reads them, gradients as the backward part finishes them) and says how many samples a piece of a batch has, where
// batches go through the model in pieces; then for each update its number, the three numbers of its
// division, the values' and the gradients' hashes, and the XXH3 of these, 64 bits each.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/session/parameter_values.h"
#include "src/update/schedule.h"

namespace bascule {

inline constexpr char kTensorHashesFile[] = "tensor_hashes.bin";
inline constexpr std::int64_t kTensorHashesFormat = 3;
inline constexpr char kSamplesOfPiece[] = "mini_batch_size";  // in the first line; absent: batches are not in pieces

// How the samples of an update are divided, as the settings say. It is the order of the gradients' sums, so two
// divisions of the same samples give gradients that differ by rounding.
struct UpdateDivision {
  std::int64_t ranks = 1;
  std::int64_t samples = 1;        // of a rank's micro-batch
  std::int64_t micro_batches = 1;  // of a rank
  std::int64_t of_piece = 0;       // samples of a micro-batch that go through the model at a time; 0: all

  bool operator==(const UpdateDivision& other) const {
    return ranks == other.ranks && samples == other.samples && micro_batches == other.micro_batches &&
           of_piece == other.of_piece;
  }
  std::int64_t all_samples() const { return ranks * samples * micro_batches; }
};

// The checksum of all words of an update but its last one, which this is.
std::uint64_t update_checksum(Span<const std::uint64_t> words) noexcept;

class TensorHashes final : public BlockObserver {
 public:
  // The memory for parts and ring; the ranks of a node share it.
  static std::size_t bytes(const ParameterSet& set, const ParameterLayout& layout);

  // Before the seal, when the weights are there: values that are not trained are hashed here, once. memory: bytes(),
  // zero.
  TensorHashes(const ParameterMemory& parameters, Span<std::byte> memory);

  // Before the seal, by rank 0: the file, in which nothing of later updates than `step` stays. division: of the updates
  // from here on. A run that goes on does not touch hashes that are damaged, of other tensors or in another version's
  // format: returns the name under which they are kept, "" if there are none. Throws Error{kDisk}.
  std::string open(const std::string& folder, std::int64_t step, const UpdateDivision& division);

  void see(std::size_t block, const float* values, const float* gradients) const noexcept override;
  // By rank 0, when all ranks have updated their blocks.
  Status keep(std::int64_t step) noexcept;
  // Writes what the ring holds to the disk.
  Status sync() noexcept;
  // A write or a sync: keep() or sync() said so.
  bool has_failed() const noexcept { return has_failed_; }

 private:
  struct Part {
    std::int64_t offset = 0, count = 0;  // in the range of trained parameters
  };
  struct Tensor {
    std::string name;
    std::int64_t elements = 0;
    std::size_t first = 0, count = 0;  // parts; none: it is not trained
    std::uint64_t fixed = 0;           // then the hash of its value
  };

  std::string header() const;
  // Behind the updates up to `step`. False: one of those in the file does not have its checksum.
  bool find_end(std::int64_t step, off_t* end) const;
  Status flush() noexcept;
  static constexpr std::size_t kRingUpdates = 64;

  std::vector<Tensor> tensors_;             // in the order of the forward part
  std::vector<std::size_t> by_gradient_;    // of trained tensors_, in the order of the backward part
  std::vector<Part> parts_;                 // in the order of the range
  std::vector<std::size_t> first_part_;     // by block, and the end
  Span<std::uint64_t> values_, gradients_;  // hashes of parts, in their order: those of a tensor stand together
  Span<std::uint64_t> ring_;
  std::size_t words_of_update_ = 0, kept_ = 0;
  UpdateDivision division_;
  Descriptor file_;
  bool has_failed_ = false;
};

}  // namespace bascule
