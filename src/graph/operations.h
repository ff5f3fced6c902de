// SPDX-License-Identifier: Apache-2.0
// The operation kinds: each function adds one to a graph and returns what it writes, a tensor of the given name.
// Formulas and sources stand at the kernels that they name (kernels/*.h); shapes are given here. B samples, R packed
// rows, C columns. Indexes, offsets, labels and keys are operands like any other, commonly fields of the batch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/activation.h"
#include "src/graph/graph.h"

namespace bascule {

// How the rows of a tensor belong to samples: extent.per_row each, or, where there are offsets, those from offsets[b]
// to before offsets[b + 1] (int32). Where a sample is several texts there are offsets of every text, and what is called
// a sample here is one of them. row_keys (rows, int64): where their random numbers come from; none: nothing is dropped.
struct SampleRows {
  Extent extent;
  Tensor offsets;
  Tensor row_keys;
  bool are_picked = false;  // some of a sample's rows, not the first ones one after another
};
// The samples, in this sense, that rows belong to.
Extent samples_of(const Graph& graph, const SampleRows& rows);

// (rows, in) -> (rows, out): x W^T + b. weight (out, in); bias (1, out) or none.
Tensor linear(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias);

// y = LN(x), row by row. weight, bias (1, C).
Tensor layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, float epsilon);

// sum = x + dropout(h), y = LN(sum). row_keys: of x's rows; read where something is dropped.
struct Normalized {
  Tensor sum, y;
};
Normalized add_layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, Tensor bias,
                          float epsilon, DropoutPlace dropout, Tensor row_keys);

// The same without mean and bias: y = x / sqrt(mean(x^2) + epsilon) * weight, row by row.
Tensor rms_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, float epsilon);
Normalized add_rms_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, float epsilon,
                        DropoutPlace dropout, Tensor row_keys);

Tensor activation(Graph& graph, const std::string& name, Tensor x, Activation kind);

// (rows, 2 C) -> (rows, C): dropout(kind(one half of the columns) * the other half). No other operation reads x.
// row_keys: of x's rows; read where something is dropped.
Tensor gate(Graph& graph, const std::string& name, Tensor x, Activation kind, DropoutPlace dropout, Tensor row_keys,
            GatedHalf half = GatedHalf::kFirst);

// a + b, of the same rows and columns.
Tensor add(Graph& graph, const std::string& name, Tensor a, Tensor b);

// factor x.
Tensor scale(Graph& graph, const std::string& name, Tensor x, float factor);

Tensor dropout(Graph& graph, const std::string& name, Tensor x, DropoutPlace place, Tensor row_keys);

// Column slices that attention reads: `heads * head_size` columns from `col` on.
struct AttentionOperand {
  Tensor tensor;
  std::int64_t col = 0;
};
// scale 0: 1 / sqrt(head_size). causal: query i of a sample that has Q of them and K keys, Q <= K, sees keys 0 .. K - Q
// + i: a token those up to its own place, where each token is a query, and a sample's last token alone all. bias: of
// relative_position_bias(), whose span no sample's keys exceed; the score of query i and key j gets that of distance
// j - (K - Q + i).
struct AttentionOptions {
  float scale = 0.0f;
  bool causal = false;
  Tensor bias;
};
// (query rows, heads * head_size). Key and value have the same rows. Query rows without offsets may be of another
// stream than samples: each of its rows is then what is called a sample here. A query tensor with one row a sample
// holds its first row, but its last one where there is a bias or `causal`. sample_keys (B, int64): read where something
// is dropped. Of picked query rows their own keys are read too, so that an element is dropped or not whichever rows are
// picked.
Tensor attention(Graph& graph, const std::string& name, AttentionOperand query, const SampleRows& query_rows,
                 AttentionOperand key, AttentionOperand value, const SampleRows& key_rows, std::int64_t heads,
                 std::int64_t head_size, DropoutPlace dropout, Tensor sample_keys,
                 const AttentionOptions& options = {});

// A state that keeps keys and values for later replays: (heads * places, 2 * head_size). Row head * places + p holds
// key and value of place p side by side, so that a head reads memory from front to back.
//
// Puts rows of x, whose columns from key_col and value_col on are `heads * head_size` of keys and of values, into the
// places that index (int32) names, none of them twice; without an index into the first ones. Other places keep their
// values. It has no gradient.
void store_keys(Graph& graph, Tensor state, Tensor x, std::int64_t key_col, std::int64_t value_col, std::int64_t heads,
                Tensor index);

// Groups of queries share keys: group g sees the places that the first counts[g] numbers of its row of `places` name,
// in that order. places (groups, most), counts (groups), int32; at least one each.
struct CachedKeys {
  Tensor state, places, counts;
};
// (query rows, heads * head_size), with the bits of attention() over the same keys. query_rows: those of each group;
// with `causal` or a bias a group's queries are its last ones, as above. Without a backward part.
Tensor cached_attention(Graph& graph, const std::string& name, AttentionOperand query, const SampleRows& query_rows,
                        const CachedKeys& keys, std::int64_t heads, std::int64_t head_size,
                        const AttentionOptions& options);

// Which row of a table the distance of a key from its query has. Near distances have rows of their own, others share
// them in ranges that grow by a factor, and from max_distance on all share one. bidirectional: the second half of the
// rows is for keys behind the query; otherwise those share the row of distance 0. A direction has 2 buckets or more and
// max_distance is above half of that, or there is no range to grow. Source: _relative_position_bucket() of
// Transformers.
struct RelativeBuckets {
  std::int64_t buckets = 32, max_distance = 128;
  bool bidirectional = true;

  std::int64_t of_direction() const { return bidirectional ? buckets / 2 : buckets; }
};
inline constexpr std::int64_t kMaxRelativeBuckets = 512;  // of a direction

// (heads, 2 * span - 1): column span - 1 + d is, of each head, the table's number in the row of distance d = key -
// query. table (buckets, heads).
Tensor relative_position_bias(Graph& graph, const std::string& name, Tensor table, const RelativeBuckets& rule,
                              std::int64_t span);

// (R, C): word + position + type, each by the row's number in it (int32). No numbers of types: every row has the first.
// Without tables of position and type: word alone.
struct EmbeddingTables {
  Tensor word, position, type;
};
struct EmbeddingRows {
  Tensor token_ids, position_ids, token_types;
};
// Rows of word and position that are never trained; -1: there is none.
struct EmbeddingPadding {
  std::int32_t word = -1, position = -1;
};
Tensor text_embedding(Graph& graph, const std::string& name, const EmbeddingTables& tables, const EmbeddingRows& rows,
                      EmbeddingPadding padding);

// Pictures (B, channels * height * width) to patches: (B * (height / patch) * (width / patch), channels * patch *
// patch).
Tensor extract_patches(Graph& graph, const std::string& name, Tensor pixels, std::int64_t channels, std::int64_t height,
                       std::int64_t width, std::int64_t patch);

// (B * (patches + f), C): f class rows first, position added. patch (B * patches, C), class_row (f, C), position
// (patches + f, C). Without class rows, rows and positions are those of the patches alone.
Tensor image_embedding(Graph& graph, const std::string& name, Tensor patch, Tensor class_row, Tensor position,
                       std::int64_t patches);

// The position table of a from_side x from_side grid (behind class_rows others), resized to height x width:
// bicubic, a = -0.75, align_corners false, no antialias. Source: interpolate_pos_encoding() of the reference's vision
// embeddings.
Tensor resize_positions(Graph& graph, const std::string& name, Tensor table, std::int64_t from_side,
                        std::int64_t height, std::int64_t width, std::int64_t class_rows);
// The same for values: table (class_rows + from_side^2, cols), out (class_rows + height * width, cols), not
// overlapping.
void resize_position_values(float* out, const float* table, std::int64_t from_side, std::int64_t height,
                            std::int64_t width, std::int64_t cols, std::int64_t class_rows);

// Pictures as rows, a sample's pixels row by row. 3 x 3, with a border of one zero pixel.
struct ConvolutionShape {
  std::int64_t height = 0, width = 0;                    // of the pictures in x
  std::int64_t stride = 1;                               // 1 or 2
  std::int64_t enlarged_height = 0, enlarged_width = 0;  // they are enlarged to this size first (nearest); 0: not
};
// (rows of samples * out_height * out_width, out), where an out extent is (extent - 1) / stride + 1. weight (out, 9 *
// in): column tap * in + channel, tap = 3 * dy + dx; bias (1, out), any tensor. By our own kernel whatever
// machine.products says.
Tensor convolution(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias,
                   const ConvolutionShape& shape);

// Over the pixels of a sample, which are the rows for each unit of x's stream, and the channels of a group; biased
// variance; then SiLU where asked for. weight, bias (1, C).
Tensor group_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, std::int64_t groups,
                  float epsilon, bool silu);

// (B, C): the row of this number of every sample, each of which has as many; and the first row of every sample.
Tensor numbered_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows, std::int64_t number);
Tensor first_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows);

// (B, C): the mean of each sample's rows, and the largest number of each column of them, whose gradient goes to the
// first row that has it.
Tensor mean_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows);
Tensor max_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows);

// (rows of index, C): the rows of x that index (int32) names; where x has a gradient, none of them twice.
Tensor gather_rows(Graph& graph, const std::string& name, Tensor x, Tensor index);

// (rows, C): the rows of x, all of them as many times one after another as `rows` has room for, whatever its stream; x
// itself where it has these rows.
Tensor repeat_rows(Graph& graph, const std::string& name, Tensor x, Extent rows);

// Puts the rows of x into the rows of a state that index (int32) names, none of them twice; the state's other rows keep
// their values. It has no gradient.
void store_rows(Graph& graph, Tensor state, Tensor x, Tensor index);

// (rows, a.cols + b.cols)
Tensor concatenate(Graph& graph, const std::string& name, Tensor a, Tensor b);

// (1, C): row + table[index]: a bias and a token type in one.
Tensor add_table_row(Graph& graph, const std::string& name, Tensor row, Tensor table, std::int64_t index);

// Link towers with a trained factor (1, 1). kScaled: a * factor + c; kInterpolate: a * (1 - factor) + c * factor.
enum class Blend { kScaled, kInterpolate };
Tensor blend(Graph& graph, const std::string& name, Blend kind, Tensor a, Tensor c, Tensor factor);

// y = x / |x|, row by row.
Tensor normalize(Graph& graph, const std::string& name, Tensor x);

// x rounded to bf16. Without a backward part: element_types.h adds it to graphs that are whole.
extern const OperationKind kRoundToBf16;

// Latents of a batch's pictures in numbered slots that outlive a replay: the state (slots * pictures, pixels *
// channels), where `pictures` is the most that a batch has. Row slot * pictures + p is the (pixels, channels) of
// picture p.
struct LatentSlots {
  Tensor state;
  std::int64_t slots = 0, pictures = 0, pixels = 0, channels = 0;
};
LatentSlots latent_slots(Graph& graph, const std::string& name, std::int64_t slots, std::int64_t pictures,
                         std::int64_t pixels, std::int64_t channels);

// One call of a program over slots (src/generate/samplers.h), commonly two fields of the batch. scales (1, 1 +
// slots): input_scale and the weights. numbers (1, 4), int32: x, output, next, and the picture that the batch begins
// with.
struct SamplingFields {
  Tensor scales, numbers;
};
// (out_rows, channels): input_scale times slot x of the batch's pictures, whose rows are `rows`, as many times one
// after another as out_rows has room for: once, or twice for guidance. Its stream may be another one.
Tensor sampling_input(Graph& graph, const std::string& name, const LatentSlots& latents, Extent rows,
                      const SamplingFields& call, Extent out_rows);
// Puts e into slot output, and then the weighted sum of the slots into slot next. e: (rows,
// channels) or, where guidance is above 1, (rows.times(2), channels): all pictures without the prompt, then all with
// it; what is put is e0 + guidance * (e1 - e0). It has no gradient.
void sampling_step(Graph& graph, const LatentSlots& latents, Extent rows, Tensor e, float guidance,
                   const SamplingFields& call);

// Losses: each writes `loss` (1, 1), the mean over what it counts, kept. They are the roots of backward. Each is one
// term of the graph's loss, by whose place in Replay::loss_weights its gradients are scaled; `term` is 0 where there is
// no such argument.

// Embeddings (B, E), logit_scale (1, 1): the mean of three one-sided cross entropies, text-image, text-cross,
// image-cross. Where the graph's bounds have samples of all ranks, it is over those, which Replay::peers gathers. Every
// rank then has the loss of all, and the part of its gradient that flows through its own samples: their sum over the
// ranks is the gradient.
Tensor contrastive_loss(Graph& graph, Tensor text, Tensor image, Tensor cross, Tensor logit_scale);

// Embeddings (k B, E) of samples that are k texts each, one after another; their length does not matter. The first text
// of each sample is to be told from all others: its second text has the largest of the scaled cosines with it. The mean
// over samples of the cross entropy of its cosines with the second texts of all samples, then the third ones of all,
// and so on; where it is symmetric, of this and the cross entropy of each second text's cosines with all first ones.
// Over the samples of all ranks as the contrastive loss. Source: MultipleNegativesRankingLoss of sentence-transformers,
// as those below.
Tensor ranking_loss(Graph& graph, Tensor embeddings, std::int64_t texts, float scale, bool is_symmetric);

// (B, 1): the cosine of each sample's two embeddings, which are (2 B, E).
Tensor pair_cosines(Graph& graph, const std::string& name, Tensor embeddings);

// log(1 + sum of exp(scale (cosine_i - cosine_j)) over the pairs of rows whose labels say that i is less than j).
// cosines, labels (B, 1), float32. Source: CoSENTLoss.
Tensor cosent_loss(Graph& graph, Tensor cosines, Tensor labels, float scale);

// logits against labels (rows, int32; negative: the row does not count), of which `smoothing`, in [0, 1), is spread
// evenly over all classes. `hits` (int32): whether the largest logit is the label's; kept.
struct ClassLoss {
  Tensor loss, hits;
  Tensor tops, others;  // rows: the largest logit, and what class_predictions() needs beside it
};
// Second labels (rows, int32), and the share of the first ones (rows), where samples are mixed; hits are the first
// ones'.
struct MixedLabels {
  Tensor labels, shares;
};
ClassLoss cross_entropy_loss(Graph& graph, Tensor logits, Tensor labels, float smoothing = 0.0f, MixedLabels mixed = {},
                             int term = 0);

// Without a backward part. `classes` (rows, n, int32): those of the n largest logits, the largest first and the first
// of equals first, where n is kPredictedClasses or, of fewer classes, all; `class_probabilities` (rows, n):
// softmax(logits) there; `probabilities` (rows): at the label. Rows with a negative label: 0. All are kept.
inline constexpr std::int64_t kPredictedClasses = 5;
struct ClassPredictions {
  Tensor classes, class_probabilities, probabilities;
};
ClassPredictions class_predictions(Graph& graph, Tensor logits, Tensor labels, const ClassLoss& loss);

// values (rows, 1) against labels (rows, 1), float32: the mean of (value - label)^2.
Tensor squared_error_loss(Graph& graph, Tensor values, Tensor labels, int term = 0);

// Without a backward part: top (rows, 1), each row's largest logit, and log_sum (rows, 1), log sum exp(logits - top).
struct LogSums {
  Tensor top, log_sum;
};
LogSums log_sums(Graph& graph, Tensor logits);

// sum over `outputs` of sum(output * cotangent): the gradient of each output is its cotangent, an input of the graph;
// no weight reaches it. For a part of a model whose loss is elsewhere, and for verification.
Tensor cotangent_loss(Graph& graph, const std::vector<std::pair<Tensor, Tensor>>& outputs_and_cotangents);

}  // namespace bascule
