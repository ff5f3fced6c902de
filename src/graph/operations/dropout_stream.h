// SPDX-License-Identifier: Apache-2.0
// From a place in the model and a replay to the stream of random numbers that a kernel takes.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "src/graph/operations.h"
#include "src/graph/replay.h"

namespace bascule {

inline DropoutStream dropout_stream(const DropoutPlace& place, const Replay& replay) {
  DropoutStream stream;
  if (place.probability <= 0.0f) return stream;
  const double p = static_cast<double>(place.probability);
  stream.threshold = static_cast<std::uint32_t>(p * 4294967296.0 + 0.5);
  stream.scale = static_cast<float>(1.0 / (1.0 - p));
  stream.key[0] = replay.dropout_key[0];
  stream.key[1] = replay.dropout_key[1];
  stream.operation = place.operation;
  return stream;
}

// Whose coordinates the rows of a dropped tensor have: all text rows, or each sample's first row. The model drops no
// image tower rows, but the cross-modal image layers do: see image_row_keys in the batch.
enum class RowKeys { kText, kFirstRow, kImage };

inline const std::uint64_t* row_keys(RowKeys keys, const Replay& replay, std::int64_t first) {
  switch (keys) {
    case RowKeys::kText: return replay.batch.text_row_keys + first;
    case RowKeys::kFirstRow: return replay.batch.sample_keys + first;
    case RowKeys::kImage: return replay.batch.image_row_keys + first;
  }
  return nullptr;
}

}  // namespace bascule
