// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/prepare.h"

#include <algorithm>

#include "firmware_shims/codec/planes.h"
#include "firmware_shims/codec/random_crop.h"
#include "firmware_shims/codec/reader.h"
#include "firmware_shims/codec/resample.h"

namespace bascule::codec {
namespace {

constexpr std::int64_t kChannels = kPixelBytes;
constexpr double kByteMax = 255.0;

Verdict too_large() { return {MEDIA_ENGINE_PICTURE_TOO_LARGE, 0}; }

// Rows by number, the last `capacity` of them. T: bytes or floats.
template <typename T>
struct RowRing {
  T* data = nullptr;
  std::int64_t capacity = 0;  // a multiple of kRowGroup: a group of rows lies together
  std::int64_t stride = 0;    // elements
  T* row(std::int64_t number) const { return data + number % capacity * stride; }

  bool open(Arena* arena, std::int64_t rows_at_once, std::int64_t elements) {
    capacity = (rows_at_once + kRowGroup - 1) / kRowGroup * kRowGroup + kRowGroup;
    constexpr std::int64_t kElementsAligned = static_cast<std::int64_t>(kArenaAlignment / sizeof(T));
    const std::int64_t slack = kResizeSlackBytes / static_cast<std::int64_t>(sizeof(T));
    stride = (elements + slack + kElementsAligned - 1) / kElementsAligned * kElementsAligned;
    data = arena->take_array<T>(static_cast<std::size_t>(capacity * stride));
    return data != nullptr;
  }
};

std::int64_t most_rows_at_once(const Taps& y) {
  std::int32_t most = 1;
  for (std::int64_t i = 0; i < y.outputs; ++i) most = std::max(most, y.count[i]);
  return most;
}

// The part that all three ways of resampling share. A way has: open(), take_rows(), blend(output row).
struct Pipeline {
  const ResizeKernels* kernels;
  Taps x, y;  // of the stored picture
  PlaneWriter planes;
  BytesToPlanes finish;   // the processor's normalising
  BlendToPlanes blend;    // training's
  std::int64_t x_origin;  // first column of the rows that come
  std::int64_t rows_in;   // that have come; ring row numbers count from the first of them
  std::int64_t next_out;
  const void** row_pointers;  // as many as the vertical pass has taps

  bool next_is_complete() const { return next_out < y.outputs && y.first[next_out] + y.count[next_out] <= rows_in; }
};

// Columns first; floats in the ring.
struct TrainingWay : Pipeline {
  RowRing<float> ring;

  bool open(Arena* arena) {
    row_pointers = arena->take_array<const void*>(static_cast<std::size_t>(y.stride));
    return row_pointers != nullptr && ring.open(arena, most_rows_at_once(y), kChannels * x.outputs);
  }
  void take_rows(const std::uint8_t* data, std::int64_t stride_bytes, std::int64_t count) {
    kernels->resample_rows_float({ring.row(rows_in), data + kChannels * (x.in_begin - x_origin), x.first,
                                  x.float_weights, count, x.outputs, x.stride, ring.stride, stride_bytes});
  }
  void blend_row(std::int64_t out) {
    auto** const rows = static_cast<const float**>(static_cast<void*>(row_pointers));
    for (std::int64_t t = 0; t < y.count[out]; ++t) rows[t] = ring.row(y.first[out] + t);
    blend.rows = rows;
    blend.weights = y.float_weights + out * y.stride;
    blend.taps = y.count[out];
    planes.row_begin(blend.out);
    kernels->blend_to_planes(blend);
    planes.row_end();
  }
};

// Columns first; bytes in the ring.
struct ProcessorWay : Pipeline {
  RowRing<std::uint8_t> ring;
  std::uint8_t* blended;

  bool open(Arena* arena) {
    row_pointers = arena->take_array<const void*>(static_cast<std::size_t>(y.stride));
    blended = arena->take_array<std::uint8_t>(static_cast<std::size_t>(kChannels * x.outputs + kResizeSlackBytes));
    return row_pointers != nullptr && blended != nullptr &&
           ring.open(arena, most_rows_at_once(y), kChannels * x.outputs);
  }
  void take_rows(const std::uint8_t* data, std::int64_t stride_bytes, std::int64_t count) {
    kernels->resample_rows_bytes({ring.row(rows_in), data + kChannels * (x.in_begin - x_origin), x.first,
                                  x.byte_weights, count, x.outputs, x.stride, ring.stride, stride_bytes, x.shift});
  }
  void blend_row(std::int64_t out) {
    auto** const rows = static_cast<const std::uint8_t**>(static_cast<void*>(row_pointers));
    for (std::int64_t t = 0; t < y.count[out]; ++t) rows[t] = ring.row(y.first[out] + t);
    kernels->blend_rows_bytes(
        {blended, rows, y.byte_weights + out * y.stride, y.count[out], kChannels * x.outputs, y.shift});
    finish.in = blended;
    planes.row_begin(finish.out);
    kernels->bytes_to_planes(finish);
    planes.row_end();
  }
};

// A transposed picture: the upright one's columns are its rows, and bytes are rounded between the passes; so rows
// first.
struct TransposedProcessorWay : Pipeline {
  RowRing<std::uint8_t> ring;
  std::uint8_t* blended;  // one row of the window's columns
  std::uint8_t* resampled;

  std::int64_t window_values() const { return kChannels * (x.in_end - x.in_begin); }
  bool open(Arena* arena) {
    const std::size_t slack = static_cast<std::size_t>(kResizeSlackBytes);
    row_pointers = arena->take_array<const void*>(static_cast<std::size_t>(y.stride));
    blended = arena->take_array<std::uint8_t>(static_cast<std::size_t>(window_values()) + slack);
    resampled = arena->take_array<std::uint8_t>(static_cast<std::size_t>(kChannels * x.outputs) + slack);
    return row_pointers != nullptr && blended != nullptr && resampled != nullptr &&
           ring.open(arena, most_rows_at_once(y), window_values());
  }
  void take_rows(const std::uint8_t* data, std::int64_t stride_bytes, std::int64_t count) {
    const std::uint8_t* const window = data + kChannels * (x.in_begin - x_origin);
    for (std::int64_t r = 0; r < count; ++r)
      std::copy_n(window + r * stride_bytes, window_values(), ring.row(rows_in + r));
  }
  void blend_row(std::int64_t out) {
    auto** const rows = static_cast<const std::uint8_t**>(static_cast<void*>(row_pointers));
    for (std::int64_t t = 0; t < y.count[out]; ++t) rows[t] = ring.row(y.first[out] + t);
    kernels->blend_rows_bytes({blended, rows, y.byte_weights + out * y.stride, y.count[out], window_values(), y.shift});
    kernels->resample_rows_bytes({resampled, blended, x.first, x.byte_weights, 1, x.outputs, x.stride, 0, 0, x.shift});
    finish.in = resampled;
    planes.row_begin(finish.out);
    kernels->bytes_to_planes(finish);
    planes.row_end();
  }
};

template <typename Way>
void on_rows(void* context, const std::uint8_t* data, std::int64_t stride_bytes, std::int64_t, std::int64_t count) {
  Way& way = *static_cast<Way*>(context);
  way.take_rows(data, stride_bytes, count);
  way.rows_in += count;
  for (; way.next_is_complete(); ++way.next_out) way.blend_row(way.next_out);
}

void set_normalising(Pipeline* pipeline, const media_engine_job& job) {
  for (int c = 0; c < 3; ++c) {
    const bool raw = job.raw != 0;
    pipeline->finish.subtract[c] = raw ? 0.0F : static_cast<float>(job.mean[c]) * static_cast<float>(job.levels);
    pipeline->finish.divide[c] = raw ? 1.0F : static_cast<float>(job.std[c]) * static_cast<float>(job.levels);
    pipeline->blend.scale[c] = raw ? 1.0F : static_cast<float>(1.0 / (job.std[c] * kByteMax));
    pipeline->blend.offset[c] = raw ? 0.0F : static_cast<float>(-job.mean[c] / job.std[c]);
  }
}

// Everything between the header and the end marker.
struct Picture {
  PictureReader* reader;
  Arena* arena;
  const media_engine_job* job;
  const PreparationSettings* settings;
  Geometry geometry;  // upright, of what the decoder gives
  Turn turn;
  int shrink;
  bool flipped;  // the upright picture is mirrored left to right
};

Filter filter_of(const media_engine_job& job) {
  if (job.preparation == MEDIA_ENGINE_PROCESSOR) return Filter::kBicubicBytes;
  const bool is_bilinear = job.interpolation == MEDIA_ENGINE_BILINEAR;
  if (job.preparation == MEDIA_ENGINE_SQUARE_PROCESSOR)
    return is_bilinear ? Filter::kBilinearBytes : Filter::kBicubicBytes;
  if (job.augment == MEDIA_ENGINE_CROP_FLIP) return is_bilinear ? Filter::kExactBilinear : Filter::kExactBicubic;
  return is_bilinear ? Filter::kBilinear : Filter::kBicubic;
}

// With the flip, which exchanges the ends of the upright rows: those lie along x as stored, or y where it is
// transposed.
Turn flipped(Turn turn) {
  bool& mirror = turn.transpose ? turn.mirror_y : turn.mirror_x;
  mirror = !mirror;
  return turn;
}

template <typename Way>
Verdict run(const Picture& picture) {
  const Filter filter = filter_of(*picture.job);
  const Turn turn = picture.turn;
  Way way{};
  way.kernels = picture.settings->kernels;
  set_normalising(&way, *picture.job);
  const bool takes_bytes = filter == Filter::kBicubicBytes || filter == Filter::kBilinearBytes;
  const std::int64_t unit = takes_bytes ? kByteTapUnit : kFloatTapUnit;
  const Axis& stored_x = turn.transpose ? picture.geometry.y : picture.geometry.x;
  const Axis& stored_y = turn.transpose ? picture.geometry.x : picture.geometry.y;
  float border[3];
  for (int c = 0; c < 3; ++c) border[c] = (0.0F - way.finish.subtract[c]) / way.finish.divide[c];
  const bool fits = make_taps(&way.x, picture.arena, stored_x, {turn.mirror_x, filter, unit, true}) &&
                    make_taps(&way.y, picture.arena, stored_y, {turn.mirror_y, filter, 1, false}) &&
                    way.planes.open(picture.arena, static_cast<float*>(picture.job->pixels), picture.job->side,
                                    picture.geometry, picture.flipped ? flipped(turn) : turn, border) &&
                    way.open(picture.arena);
  if (!fits) return too_large();
  way.finish.pixels = way.planes.columns();
  way.blend.pixels = way.planes.columns();
  const Window window{way.x.in_begin, way.x.in_end, way.y.in_begin, way.y.in_end};
  const Verdict begun = picture.reader->begin(picture.shrink, window);
  if (!begun.ok()) return begun;
  way.x_origin = picture.reader->columns_begin();
  return picture.reader->read_rows({&way, on_rows<Way>});
}

// Halves as long as what is left is still more than the target.
int shrink_of(std::int64_t shorter, std::int64_t side, int largest) {
  int shrink = 1;
  while (shrink < largest && shorter > 2 * shrink * side) shrink *= 2;
  return shrink;
}

// The part [from, from + part) of an axis of `in` pixels, resized to `edge`, of which `side` in the centre. Shrunk by
// the decoder it reaches to whole pixels.
Axis crop_axis(std::int64_t in, std::int64_t from, std::int64_t part, std::int64_t edge, std::int64_t side,
               std::int64_t shrink) {
  const std::int64_t first = from / shrink, end = (from + part + shrink - 1) / shrink;
  return {(in + shrink - 1) / shrink, first, end - first, edge, (edge - side) / 2, side, 0};
}

Verdict prepare(const PictureFacts& facts, Picture picture) {
  const media_engine_job& job = *picture.job;
  const std::int64_t side = job.side;
  const bool training = job.preparation == MEDIA_ENGINE_TRAINING;
  const bool crops = training && job.augment == MEDIA_ENGINE_CROP_FLIP;
  const bool stretches = crops || job.preparation == MEDIA_ENGINE_SQUARE_PROCESSOR;  // the box, to a square
  const CropBox box = crops ? random_crop(job, facts.width, facts.height) : CropBox{0, 0, facts.width, facts.height};
  picture.flipped = crops && random_flip(job);
  // The shorter side after the resize; 0: there is none.
  const bool is_side = crops || ((training || stretches) && job.shortest_edge == 0);
  const std::int64_t shortest = is_side ? side : job.shortest_edge;
  const bool may_shrink = picture.settings->scale_in_decoder && shortest > 0;
  picture.shrink =
      shrink_of(std::min(box.width, box.height), shortest, may_shrink ? picture.reader->largest_shrink() : 1);
  const auto shrunk = [&](std::int64_t v) { return (v + picture.shrink - 1) / picture.shrink; };
  if (stretches) {
    picture.geometry = {crop_axis(facts.width, box.left, box.width, shortest, side, picture.shrink),
                        crop_axis(facts.height, box.top, box.height, shortest, side, picture.shrink), 0};
  } else if (training) {
    picture.geometry = training_geometry(shrunk(facts.width), shrunk(facts.height), shortest, side);
  } else {
    picture.geometry =
        processor_geometry(shrunk(facts.width), shrunk(facts.height), side, {job.shortest_edge, job.size_divisor});
  }
  if (picture.geometry.too_elongated()) return {MEDIA_ENGINE_PICTURE_TOO_ELONGATED, picture.geometry.most_elongated};
  if (training) return run<TrainingWay>(picture);
  return picture.turn.transpose ? run<TransposedProcessorWay>(picture) : run<ProcessorWay>(picture);
}

}  // namespace

Verdict prepare_picture(PictureFacts* facts, const Readers& readers, Arena* arena, const media_engine_job& job,
                        const PreparationSettings& settings, const std::atomic<bool>* stop) noexcept {
  *facts = PictureFacts{};
  const Verdict look = verdict_of_bytes(job.encoded, job.encoded_bytes);
  if (!look.ok()) return look;
  const media_engine_format format = media_engine_format_of(job.encoded, job.encoded_bytes);
  const bool is_png = format == MEDIA_ENGINE_FORMAT_PNG, is_webp = format == MEDIA_ENGINE_FORMAT_WEBP;
  PictureReader* const reader = is_png ? readers.png : is_webp ? readers.webp : readers.jpeg;
  const std::uint32_t format_detail = is_png ? MEDIA_ENGINE_DETAIL_PNG : is_webp ? MEDIA_ENGINE_DETAIL_WEBP : 0;
  if (reader == nullptr) return {MEDIA_ENGINE_PICTURE_UNSUPPORTED, format_detail};
  Verdict verdict = reader->read_header(arena, job.encoded, job.encoded_bytes, settings.limits, stop);
  if (reader->width() > 0 && reader->height() > 0) {
    facts->orientation = reader->orientation();
    const bool transpose = turn_of(facts->orientation).transpose;
    facts->width = transpose ? reader->height() : reader->width();
    facts->height = transpose ? reader->width() : reader->height();
  }
  if (verdict.ok()) {
    verdict =
        prepare(*facts, Picture{reader, arena, &job, &settings, Geometry{}, turn_of(reader->orientation()), 1, false});
    if (!verdict.ok()) verdict.detail |= format_detail;
  }
  reader->end();
  return verdict;
}

}  // namespace bascule::codec
