// SPDX-License-Identifier: Apache-2.0
// The operation kinds: each function adds one to a graph and returns what it writes. Formulas and sources stand at the
// kernels that they name (kernels/*.h); shapes are given here. B samples, R text rows, M selected rows, C columns.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/activation.h"
#include "src/graph/graph.h"

namespace bascule {

// How the rows of a tensor belong to samples: packed text, or `per_sample` rows each.
struct SampleRows {
  bool text = false;
  std::int64_t per_sample = 0;
  Extent extent() const { return text ? text_rows() : rows_per_sample(per_sample); }
};

// One place where the model drops elements. probability 0: it does not. `operation`: a number of its own.
struct DropoutPlace {
  float probability = 0.0f;
  std::uint32_t operation = 0;
};

// (rows, in) -> (rows, out): x W^T + b. weight (out, in); bias (1, out) or none.
Tensor linear(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias);

// y = LN(x), row by row. weight, bias (1, C).
Tensor layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, float epsilon);

// sum = x + dropout(h), y = LN(sum). `rows` says whose samples the rows are (dropout).
struct Normalized {
  Tensor sum, y;
};
Normalized add_layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, Tensor bias,
                          float epsilon, DropoutPlace dropout);

Tensor activation(Graph& graph, const std::string& name, Tensor x, Activation kind);

// dropout(x) on text rows.
Tensor dropout(Graph& graph, const std::string& name, Tensor x, DropoutPlace place);

// Column slices that attention reads: `heads * head_size` columns from `col` on.
struct AttentionOperand {
  Tensor tensor;
  std::int64_t col = 0;
};
// (query rows, heads * head_size). Key and value have the same rows. A query tensor with one row a sample holds its
// first row.
Tensor attention(Graph& graph, const std::string& name, AttentionOperand query, SampleRows query_rows,
                 AttentionOperand key, AttentionOperand value, SampleRows key_rows, std::int64_t heads,
                 std::int64_t head_size, DropoutPlace dropout);

// (R, C): word + position + first row of type. padding: the row of word and position that is never trained.
Tensor text_embedding(Graph& graph, const std::string& name, Tensor word, Tensor position, Tensor type,
                      std::int32_t padding);

// Pictures of the batch to patches: (B * (height / patch) * (width / patch), channels * patch * patch).
Tensor extract_patches(Graph& graph, const std::string& name, std::int64_t channels, std::int64_t height,
                       std::int64_t width, std::int64_t patch);

// (B * (patches + 1), C): class row first, position added. patch (B * patches, C), class_row (1, C), position (patches
// + 1, C).
Tensor image_embedding(Graph& graph, const std::string& name, Tensor patch, Tensor class_row, Tensor position,
                       std::int64_t patches);

// The position table of a from_side x from_side grid (class row first), resized to height x width:
// bicubic, a = -0.75, align_corners false, no antialias. Source: BridgeTowerVisionEmbeddings.interpolate_pos_encoding.
Tensor resize_positions(Graph& graph, const std::string& name, Tensor table, std::int64_t from_side,
                        std::int64_t height, std::int64_t width);

// (B, C): the first row of every sample; (M, C): the selected text rows.
Tensor first_rows(Graph& graph, const std::string& name, Tensor x, SampleRows rows);
Tensor selected_rows_of(Graph& graph, const std::string& name, Tensor x);

// (rows, a.cols + b.cols)
Tensor concatenate(Graph& graph, const std::string& name, Tensor a, Tensor b);

// (1, C): row + table[index]: a bias and a token type in one.
Tensor add_table_row(Graph& graph, const std::string& name, Tensor row, Tensor table, std::int64_t index);

// Link towers with a trained factor (1, 1). kScaled: a * factor + c; kInterpolate: a * (1 - factor) + c * factor.
enum class Blend { kScaled, kInterpolate };
Tensor blend(Graph& graph, const std::string& name, Blend kind, Tensor a, Tensor c, Tensor factor);

// y = x / |x|, row by row.
Tensor normalize(Graph& graph, const std::string& name, Tensor x);

// Losses: each writes `loss` (1, 1), the mean over what it counts, kept. They are the roots of backward, whose
// gradients are scaled by Replay::loss_weight.

// Embeddings (B, E), logit_scale (1, 1): the mean of three one-sided cross entropies, text-image, text-cross,
// image-cross. samples_of_all > 0: over the samples of all ranks, at most so many, which Replay::peers gathers. Every
// rank then has the loss of all, and the part of its gradient that flows through its own samples: their sum over the
// ranks is the gradient.
Tensor contrastive_loss(Graph& graph, Tensor text, Tensor image, Tensor cross, Tensor logit_scale,
                        std::int64_t samples_of_all = 0);

// logits against BatchView::labels, of which `smoothing`, in [0, 1), is spread evenly over all classes. `hits` (int32):
// whether the largest logit is the label's; kept.
struct ClassLoss {
  Tensor loss, hits;
  Tensor tops, others;  // rows: the largest logit, and what class_predictions() needs beside it
};
ClassLoss cross_entropy_loss(Graph& graph, Tensor logits, float smoothing = 0.0f);

// Without a backward part. `classes` (rows, int32): that of the largest logit, the first of equals; `probabilities`
// (rows): softmax(logits) at the label. Rows with a negative label: 0. Both are kept.
struct ClassPredictions {
  Tensor classes, probabilities;
};
ClassPredictions class_predictions(Graph& graph, Tensor logits, const ClassLoss& loss);

// sum over `outputs` of sum(output * cotangent): the gradient of each output is its cotangent, an input of the graph;
// loss_weight does not reach it. For verification.
Tensor cotangent_loss(Graph& graph, const std::vector<std::pair<Tensor, Tensor>>& outputs_and_cotangents);

}  // namespace bascule
