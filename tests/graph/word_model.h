// SPDX-License-Identifier: Apache-2.0
// A small language model for tests of updates, and the parameters that it is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/graph/operations.h"

namespace bascule::test {

// A parameter of one tensor of that name; a vector where it has one row. Matrices decay.
inline Tensor matrix(Graph& graph, const std::string& name, std::int64_t rows, std::int64_t cols) {
  Parameter p{name, rows, cols, true, rows > 1, {}};
  const std::vector<std::int64_t> shape = rows > 1 ? std::vector<std::int64_t>{rows, cols} : std::vector{cols};
  p.pieces = {{name, shape, 0, rows * cols, {}}};
  return graph.parameter(p);
}

// Rows of the word, position and type tables of so many words and columns.
inline Tensor record_words(Graph& g, Tensor word, std::int64_t cols) {
  return text_embedding(g, "e", {word, matrix(g, "position", 70, cols), matrix(g, "type", 1, cols)},
                        {g.field("token_ids"), g.field("position_ids"), {}}, {1, 1});
}

// With its loss; the backward part is derived later. The word table, of 37 columns, is used by the loss as well, so its
// gradient is the first to be written and the last to be final. At the widths of the layers, of which the last is 37,
// parameters may end amid a cache line.
inline void record_word_model(Graph& g, std::int64_t words, const std::vector<std::int64_t>& widths) {
  std::int64_t width = 37;
  const Tensor word = matrix(g, "word", words, width);
  Tensor x = record_words(g, word, width);
  for (const std::int64_t next : widths) {
    const std::string name = std::to_string(next);
    x = linear(g, name, x, matrix(g, name + ".w", next, width), matrix(g, name + ".b", 1, next));
    x = activation(g, name + ".a", x, Activation::kGelu);
    width = next;
  }
  const Tensor rows = gather_rows(g, "rows", x, g.field("selected_rows"));
  cross_entropy_loss(g, linear(g, "logits", rows, word, Tensor{}), g.field("labels"));
}

}  // namespace bascule::test
