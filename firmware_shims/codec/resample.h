// SPDX-License-Identifier: Apache-2.0
// The geometry of both preparations: to which size a picture goes, which part of it survives the crop, and the weights
// of each output. All in double and in a fixed order, as the references compute it. Sealed world.
#pragma once

#include <cstdint>

#include "firmware_shims/codec/arena.h"

namespace bascule::codec {

// One axis of an upright picture.
struct Axis {
  std::int64_t in;     // pixels of the picture
  std::int64_t from;   // first pixel of the part that is resized, as if there were nothing beside it
  std::int64_t part;   // pixels of that part
  std::int64_t out;    // pixels after the resize; 0: the picture is too elongated
  std::int64_t begin;  // first pixel of the resized axis that survives the crop
  std::int64_t count;  // how many survive
  std::int64_t pad;    // pixels of border in front of them
};

struct Geometry {
  Axis x, y;
  std::uint32_t most_elongated;  // of a picture that is not refused: its longer side in shorter ones, rounded down
  bool too_elongated() const { return x.out == 0 || y.out == 0; }
};

// Shorter side to `shortest`, longer to int(shortest * longer / shorter), of which `side` in the centre, at
// half-to-even. Refused where the processor refuses at 288. Source: torchvision.transforms.Resize and CenterCrop.
Geometry training_geometry(std::int64_t width, std::int64_t height, std::int64_t shortest, std::int64_t side) noexcept;

// To which size a processor brings a picture.
struct ProcessorSize {
  std::int64_t shortest_edge;  // 0: as it is
  std::int64_t divisor;
};

// Shorter side to `shortest_edge`, longer to 1333/800 of it at most, both down to a multiple of the divisor; crop to
// `side`, or border, at half rounded down. Source: Transformers' image processors (torchvision back end).
Geometry processor_geometry(std::int64_t width, std::int64_t height, std::int64_t side,
                            const ProcessorSize& size) noexcept;

// The weights of the outputs of an axis, in the order of the *stored* picture: where the axis is mirrored, output 0 is
// the last upright one. Output i is the sum of weights[i * stride + t] times input in_begin + first[i] + t over t <
// count[i]; the rest of its stride is 0.
struct Taps {
  std::int64_t outputs;
  std::int64_t stride;
  std::int64_t in_begin, in_end;  // the inputs that are read at all
  const std::int32_t* first;
  const std::int32_t* count;
  const std::int16_t* byte_weights;  // integer taps: weight * 2^shift; else null
  const float* float_weights;        // float taps; else null
  int shift;                         // integer taps
};

// The filter of an axis, and the numbers that it is computed in: torchvision's for bytes are double, for floats float,
// whose positions are off by more than its result may be off from ours. kExact: float weights from double positions.
enum class Filter { kBicubicBytes, kBilinearBytes, kBicubic, kBilinear, kExactBicubic, kExactBilinear };

struct TapRules {
  bool mirrored;
  Filter filter;
  std::int64_t tap_unit;  // stride is a multiple of this
  bool full_strides;      // every output's first .. first + stride - 1 begins inside the picture and reaches at most
                          // tap_unit - 1 past its end: for kernels that take all outputs with the same number of taps
};

// False: the arena is full.
bool make_taps(Taps* taps, Arena* arena, const Axis& axis, const TapRules& rules) noexcept;

}  // namespace bascule::codec
