// SPDX-License-Identifier: Apache-2.0
// The texts of requests as a batch, in memory that is made once. After the constructor nothing allocates.
//
//   TextBatch batch(model, fields, {samples, tokens, selected}, mask_id);
//   batch.clear();
//   batch.add(ids, second_begin, second_type);
//   replay.batch = batch.batch();
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/batch.h"
#include "src/base/span.h"
#include "src/models/model.h"
#include "src/session/packed_batch.h"

namespace bascule {

// The tokens that a model is asked about, in place of the id of a mask.
inline constexpr std::int32_t kNoToken = -1, kEveryToken = -2;

class TextBatch {
 public:
  // mask_id: the tokens that the model is asked about. fields: outlives this.
  TextBatch(const ModelInputs& inputs, const Fields& fields, const TextRoom& room, std::int32_t mask_id);

  // The bounds of a graph for such batches, of texts of so many tokens.
  static BatchCounts bounds(const Fields& fields, const TextRoom& room, std::int64_t longest);

  void clear() noexcept;
  // There is room for it. ids are in the vocabulary. From second_begin on tokens have the type second_type.
  void add(Span<const std::int32_t> ids, std::int64_t second_begin, std::int32_t second_type) noexcept;
  Batch batch() const noexcept;

 private:
  const void* field(const Field& field) const noexcept;

  const Fields& fields_;
  const TextShape shape_;
  const std::int32_t mask_id_;
  PackedText texts_;
  std::vector<std::uint64_t> sample_keys_;
  const std::vector<std::int32_t> no_labels_;  // losses are computed beside what is asked for: of any label
  const std::vector<float> no_values_;
};

}  // namespace bascule
