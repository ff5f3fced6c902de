// SPDX-License-Identifier: Apache-2.0
// Normalisations: layer norm, RMS norm and group norm.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace bascule {

// Layer and root mean square normalisation of rows, alone or joined to the residual sum before them. RMS norm
// subtracts no mean and adds no beta: `mean`, `beta` and d_beta_part are not read. Sources: Ba et al. 2016, section 3;
// torch.nn.LayerNorm (biased variance). Zhang and Sennrich 2019, section 3; T5LayerNorm of Transformers.

// sum[r,:] = x[r,:] + dropout(h[r,:])                        (h null: sum is x, and `sum` is not written)
// layer:  y[r,:] = (sum[r,:] - mean[r]) * rstd[r] * gamma + beta
// rms:    rstd[r] = 1 / sqrt(mean_c(sum[r,:]^2) + epsilon),  y[r,:] = sum[r,:] * rstd[r] * gamma
// Shapes: y, sum, x, h (rows, cols) dense; mean, rstd (rows); gamma, beta (cols); row_keys (rows) for dropout.
// Aliasing: sum may be x or h; y may be none of them. Overwrites y, sum, mean, rstd.
// Numerics: mean, then centred sum of squares (rms: the sum of squares), in float32 on a fixed tree of 16 lanes.
struct RowNormForward {
  Elements y;
  float *sum, *mean, *rstd;
  const float *x, *h, *gamma, *beta;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  float epsilon;
  DropoutStream dropout;
};

// g[r,:] = d_sum[r,:] + N'(d_y)[r,:]        d_sum null: 0 (the sum itself has no other reader)
//   with e = d_y * gamma and n = (sum - mean) rstd:  layer: N'(d_y) = rstd (e - mean_c(e) - n mean_c(e n))
//                        and n = sum rstd:           rms:   N'(d_y) = rstd (e - n mean_c(e n))
// d_x (+)= g;  d_h = dropout(g);  d_gamma_part[c] = sum_r d_y n;  d_beta_part[c] = sum_r d_y   (rows given, in order)
// Shapes: d_x, d_h, d_sum, d_y, sum (rows, cols) dense; parts (cols). d_h null: not wanted, or the same as d_x.
// The parts may all be null. `accumulate`: add to d_x, else overwrite. All others are overwritten.
// Aliasing: d_x may be d_sum (then without accumulate) or d_y; d_h may be d_y.
struct RowNormBackward {
  float *d_x, *d_h, *d_gamma_part, *d_beta_part;
  const float *d_sum, *d_y, *sum, *mean, *rstd, *gamma;
  const std::uint64_t* row_keys;
  std::int64_t rows, cols;
  DropoutStream dropout;
  bool accumulate;
};

// Group normalisation: over the pixels of a sample and the channels of a group, with SiLU behind it where asked for.
// Source: Wu and He 2018, section 3; torch.nn.GroupNorm (biased variance).
//
// x is (samples * rows, channels), as convolution.h has pictures. With mean and rstd those of the sample and of the
// channel's group, which has channels / groups of them:
//   n = (x - mean) rstd,  z = n gamma + beta,  y = z, or silu(z)
//
// A sample's rows are summed in blocks, by whoever is free, and the sums of the blocks are added in order: the same
// bits for any number of threads.

// Reads one block of rows of one sample. For each channel: parts (3, channels) = mean m, sum (x - m), sum (x - m)^2.
// m is rounded; the first sum is what it lacks. Numerics: float32, in the order of the rows.
// Shapes: x (rows, channels) dense. Overwrites parts. Aliasing: none.
struct GroupNormSums {
  float* parts;
  const float* x;
  std::int64_t rows, channels;
};

// Computes `count` (sample, group) pairs from `first` on, numbered sample * groups + group: for each channel
// of the group, statistics[sample, 0, channel] = mean and [sample, 1, channel] = rstd = 1 / sqrt(variance + epsilon).
// Numerics: float64, blocks in order and channels in order within a block; rounded once.
// Shapes: statistics (samples, 2, channels); parts (samples, blocks, 3, channels) as above, of blocks of block_rows
// rows, the last one of each sample what is left of its `rows`. Aliasing: none.
struct GroupNormStatistics {
  float* statistics;
  const float* parts;
  std::int64_t first, count;
  std::int64_t rows, block_rows, channels, groups;
  float epsilon;
};

// Rows of one sample. Shapes: y, x (rows, channels) dense; statistics (2, channels) of the sample; gamma, beta
// (channels). Aliasing: y may be x, where it is float32. Overwrites y.
struct GroupNormForward {
  Elements y;
  const float *x, *statistics, *gamma, *beta;
  std::int64_t rows, channels;
  bool silu;
};

// With g = d_y, or d_y silu'(z): of one block of rows of one sample, parts (2, channels) = sum g n, sum g.
// Their sums over all blocks are the gradients of gamma and beta. Shapes as above. Overwrites parts. Aliasing: none.
struct GroupNormBackwardSums {
  float* parts;
  const float *d_y, *x, *statistics, *gamma, *beta;
  std::int64_t rows, channels;
  bool silu;
};

// For (sample, group) pairs as above, each channel of the group: means[sample, 0, channel] = mean(g gamma n) and
// [sample, 1, channel] = mean(g gamma) over the group.
// Numerics: float64, blocks in order and channels in order within a block; rounded once.
// Shapes: means (samples, 2, channels); parts (samples, blocks, 2, channels); gamma (channels). Aliasing: none.
struct GroupNormBackwardMeans {
  float* means;
  const float *parts, *gamma;
  std::int64_t first, count;
  std::int64_t rows, blocks, channels, groups;
};

// d_x (+)= rstd (g gamma - mean(g gamma) - n mean(g gamma n))
// Rows of one sample; statistics and means (2, channels) are the sample's. `accumulate`: add to d_x, else overwrite.
// Aliasing: d_x may be d_y without accumulate.
struct GroupNormBackward {
  float* d_x;
  const float *d_y, *x, *statistics, *means, *gamma, *beta;
  std::int64_t rows, channels;
  bool silu, accumulate;
};

}  // namespace bascule
