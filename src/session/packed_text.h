// SPDX-License-Identifier: Apache-2.0
// Texts packed end to end into the fields of a batch, token by token: the only place, beside the loader, that knows
// what these fields hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/batch.h"
#include "src/models/model.h"

namespace bascule {

// What a batch has room for: texts, their tokens together, and the tokens that the model is asked about.
struct TextRoom {
  std::int64_t texts = 0, tokens = 0, selected = 0;
};

class PackedText {
 public:
  // Texts within the room allocate nothing then.
  void reserve(const TextRoom& room);
  // Before the first text, too.
  void clear();

  // Of the sample with this number in the run, its text of number `text`; first: the number of the text's first token
  // among the sample's.
  void begin_text(const TextShape& shape, std::uint64_t sample, int text, std::int32_t first) noexcept;
  // Whether it is selected: masked, or with a label, which is -100 where there is none. Returns its position.
  std::int32_t add(std::int32_t id, std::int32_t type, bool is_selected, std::int32_t label);
  void end_text();

  // Tokens of the last texts together.
  std::int32_t tokens_of_last(std::int64_t texts) const noexcept {
    return offsets_.back() - offsets_[offsets_.size() - 1 - static_cast<std::size_t>(texts)];
  }
  // Rows of the field's stream; -1: it is of no text.
  std::int64_t rows(FieldSource source) const noexcept;
  // Null: it is of no text.
  const void* field(FieldSource source) const noexcept;

 private:
  using Numbers = std::vector<std::int32_t>;

  Numbers token_ids_, decoder_ids_, token_types_, position_ids_, offsets_;
  Numbers read_rows_, read_offsets_, selected_among_read_;
  Numbers selected_, labels_, words_;  // words: each token counts as one
  std::vector<std::uint64_t> row_keys_, read_row_keys_;
  // Of the text that grows.
  const TextShape* shape_ = nullptr;
  std::uint64_t sample_ = 0;
  int number_ = 0;
  std::int32_t first_ = 0, counted_ = 0;
};

}  // namespace bascule
