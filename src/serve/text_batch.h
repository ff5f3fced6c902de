// SPDX-License-Identifier: Apache-2.0
// Texts packed end to end into the fields of a batch, in memory that is made once. After the constructor nothing
// allocates.
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

namespace bascule {

// What a batch has room for: texts, their tokens together, and the tokens that the model is asked about.
struct TextRoom {
  std::int64_t texts = 0, tokens = 0, selected = 0;
};

class TextBatch {
 public:
  // mask_id: the tokens that the model is asked about; -1: none. fields: outlives this.
  TextBatch(const ModelInputs& inputs, const Fields& fields, const TextRoom& room, std::int32_t mask_id);

  // The bounds of a graph for such batches, of texts of so many tokens.
  static BatchCounts bounds(const Fields& fields, const TextRoom& room, std::int64_t longest);
  static std::size_t bytes(const TextRoom& room);

  void clear() noexcept;
  // There is room for it. ids are in the vocabulary. From second_begin on tokens have the type second_type.
  void add(Span<const std::int32_t> ids, std::int64_t second_begin, std::int32_t second_type) noexcept;
  Batch batch() const noexcept;

 private:
  using Numbers = std::vector<std::int32_t>;  // with room for all, so that push_back() allocates nothing

  const void* field(FieldSource source) const noexcept;

  const Fields& fields_;
  const TextShape shape_;
  const std::int32_t mask_id_;
  Numbers ids_, types_, positions_, offsets_, selected_, read_, read_offsets_, selected_among_read_;
  std::vector<std::uint64_t> row_keys_, read_keys_, sample_keys_;
  const Numbers no_labels_;  // losses are computed beside what is asked for: of any label
  const std::vector<float> no_values_;
};

}  // namespace bascule
