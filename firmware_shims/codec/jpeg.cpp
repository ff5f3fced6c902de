// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/jpeg.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <jerror.h>

#include "kernels/resize.h"

// libjpeg leaves these two to the memory manager. Rows below `zeroed_rows` have been touched; a row is cleared when it
// is first reached, so that a file that declares much and holds little costs little.
struct jvirt_sarray_control {
  JSAMPARRAY rows;
  JDIMENSION row_count, row_samples;
  JDIMENSION zeroed_rows;
  jvirt_sarray_control* next;
};
struct jvirt_barray_control {
  JBLOCKARRAY rows;
  JDIMENSION row_count, row_blocks;
  JDIMENSION zeroed_rows;
  jvirt_barray_control* next;
};

namespace bascule::codec {
namespace {

constexpr std::size_t kSimdBytes = 64;  // libjpeg-turbo's SIMD works past the end of a row, within this unit

JpegMemory* memory_of(j_common_ptr cinfo) { return static_cast<JpegMemory*>(static_cast<void*>(cinfo->mem)); }

[[noreturn]] void fail(j_common_ptr cinfo, int message_code) {
  cinfo->err->msg_code = message_code;
  (*cinfo->err->error_exit)(cinfo);
  __builtin_unreachable();
}

void* take(j_common_ptr cinfo, std::size_t bytes) {
  void* const memory = memory_of(cinfo)->arena->take(bytes);
  if (memory == nullptr) fail(cinfo, JERR_OUT_OF_MEMORY);
  return memory;
}

void* alloc_small(j_common_ptr cinfo, int, std::size_t bytes) { return take(cinfo, bytes); }
void* alloc_large(j_common_ptr cinfo, int, std::size_t bytes) { return take(cinfo, bytes); }

// Pointers to `rows` rows of `row_elements` elements each, one after another.
template <typename Element>
Element** take_rows(j_common_ptr cinfo, std::size_t row_elements, std::size_t rows) {
  auto** const pointers = static_cast<Element**>(take(cinfo, rows * sizeof(Element*)));
  const std::size_t row_bytes = (row_elements * sizeof(Element) + kSimdBytes - 1) / kSimdBytes * kSimdBytes;
  auto* const data = static_cast<unsigned char*>(take(cinfo, row_bytes * rows + kSimdBytes));
  for (std::size_t r = 0; r < rows; ++r) pointers[r] = static_cast<Element*>(static_cast<void*>(data + r * row_bytes));
  return pointers;
}

JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int, JDIMENSION samples, JDIMENSION rows) {
  return take_rows<JSAMPLE>(cinfo, samples, rows);
}
JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int, JDIMENSION blocks, JDIMENSION rows) {
  return take_rows<JBLOCK>(cinfo, blocks, rows);
}

template <typename Control>
Control* request(j_common_ptr cinfo, Control** list, JDIMENSION row_elements, JDIMENSION rows) {
  auto* const control = static_cast<Control*>(take(cinfo, sizeof(Control)));
  *control = Control{};
  control->row_count = rows;
  if constexpr (std::is_same_v<Control, jvirt_sarray_control>) {
    control->row_samples = row_elements;
  } else {
    control->row_blocks = row_elements;
  }
  control->next = *list;
  *list = control;
  return control;
}

jvirt_sarray_ptr request_sarray(j_common_ptr cinfo, int, boolean, JDIMENSION samples, JDIMENSION rows, JDIMENSION) {
  return request(cinfo, &memory_of(cinfo)->sample_arrays, samples, rows);
}
jvirt_barray_ptr request_barray(j_common_ptr cinfo, int, boolean, JDIMENSION blocks, JDIMENSION rows, JDIMENSION) {
  return request(cinfo, &memory_of(cinfo)->block_arrays, blocks, rows);
}

void realize(j_common_ptr cinfo) {
  JpegMemory* const memory = memory_of(cinfo);
  for (auto* a = memory->sample_arrays; a != nullptr; a = a->next) {
    if (a->rows == nullptr) a->rows = take_rows<JSAMPLE>(cinfo, a->row_samples, a->row_count);
  }
  for (auto* a = memory->block_arrays; a != nullptr; a = a->next) {
    if (a->rows == nullptr) a->rows = take_rows<JBLOCK>(cinfo, a->row_blocks, a->row_count);
  }
}

template <typename Control>
auto access(j_common_ptr cinfo, Control* control, std::size_t row_bytes, JDIMENSION first, JDIMENSION count) {
  if (control->rows == nullptr || count > control->row_count || first > control->row_count - count) {
    fail(cinfo, JERR_BAD_VIRTUAL_ACCESS);
  }
  for (; control->zeroed_rows < first + count; ++control->zeroed_rows) {
    std::memset(control->rows[control->zeroed_rows], 0, row_bytes);
  }
  return control->rows + first;
}

JSAMPARRAY access_sarray(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION first, JDIMENSION count, boolean) {
  return access(cinfo, array, array->row_samples * sizeof(JSAMPLE), first, count);
}
JBLOCKARRAY access_barray(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION first, JDIMENSION count, boolean) {
  return access(cinfo, array, array->row_blocks * sizeof(JBLOCK), first, count);
}

void free_pool(j_common_ptr, int) {}
void self_destruct(j_common_ptr) {}

}  // namespace

void init_jpeg_memory(JpegMemory* memory) noexcept {
  *memory = JpegMemory{};
  memory->methods.alloc_small = alloc_small;
  memory->methods.alloc_large = alloc_large;
  memory->methods.alloc_sarray = alloc_sarray;
  memory->methods.alloc_barray = alloc_barray;
  memory->methods.request_virt_sarray = request_sarray;
  memory->methods.request_virt_barray = request_barray;
  memory->methods.realize_virt_arrays = realize;
  memory->methods.access_virt_sarray = access_sarray;
  memory->methods.access_virt_barray = access_barray;
  memory->methods.free_pool = free_pool;
  memory->methods.self_destruct = self_destruct;
  memory->methods.max_memory_to_use = 1'000'000'000;
  memory->methods.max_alloc_chunk = 1'000'000'000;
}

void reset_jpeg_memory(JpegMemory* memory, Arena* arena) noexcept {
  memory->arena = arena;
  memory->sample_arrays = nullptr;
  memory->block_arrays = nullptr;
}

namespace {

constexpr int kApp1 = JPEG_APP0 + 1;
// Fancy upsampling looks one chroma column to each side, and the outermost columns of a cropped row are not exact.
constexpr std::int64_t kColumnMargin = 4;
// Narrower windows are not worth a crop.
constexpr std::int64_t kSmallestCrop = 32;

// "Inverted" CMYK, as Adobe writes it and as PIL takes all of it, to RGB by PIL's rule.
void cmyk_to_rgbx(std::uint8_t* row, std::int64_t pixels) {
  for (std::int64_t x = 0; x < pixels; ++x) {
    std::uint8_t* const pixel = row + kPixelBytes * x;
    const int not_black = pixel[3];  // 255 - K with K = 255 - stored
    for (int c = 0; c < 3; ++c) {
      int q = (255 - pixel[c]) * not_black + 128;
      q = (q + (q >> 8)) >> 8;
      pixel[c] = static_cast<std::uint8_t>(std::clamp(not_black - q, 0, 255));
    }
  }
}

}  // namespace

JpegReader::JpegReader() : jpeg_(), errors_(), source_(), progress_(), own_memory_(nullptr), is_ready_(false) {
  jpeg_.err = jpeg_std_error(&errors_);
  errors_.error_exit = on_error;
  errors_.emit_message = on_message;
  errors_.output_message = on_output;
  jpeg_.client_data = this;
  if (setjmp(give_up_) != 0) return;
  jpeg_create_decompress(&jpeg_);
  own_memory_ = jpeg_.mem;
  init_jpeg_memory(&memory_);
  jpeg_.mem = &memory_.methods;
  source_.init_source = on_source;
  source_.fill_input_buffer = on_input_end;
  source_.skip_input_data = on_skip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = on_source;
  jpeg_.src = &source_;
  progress_.progress_monitor = on_progress;
  jpeg_.progress = &progress_;
  jpeg_set_marker_processor(&jpeg_, kApp1, on_app1);
  is_ready_ = true;
}

JpegReader::~JpegReader() {
  if (own_memory_ == nullptr) return;
  jpeg_.mem = own_memory_;
  jpeg_destroy_decompress(&jpeg_);
}

void JpegReader::give_up(Verdict verdict) {
  verdict_ = verdict;
  std::longjmp(give_up_, 1);
}

void JpegReader::on_error(j_common_ptr cinfo) { reader_of(cinfo).give_up(verdict_of_error(cinfo->err->msg_code)); }

// Some cameras write bytes before a restart marker. They say nothing about the samples where the data expect this
// marker: the next message then traces it.
void JpegReader::on_message(j_common_ptr cinfo, int level) {
  JpegReader& reader = reader_of(cinfo);
  const int code = cinfo->err->msg_code;
  if (reader.skipped_before_restart_ && code != JTRC_RST)
    reader.give_up({MEDIA_ENGINE_PICTURE_DAMAGED, JWRN_EXTRANEOUS_DATA});
  const int scans_begun = reader.jpeg_.input_scan_number;
  reader.skipped_before_restart_ =
      code == JWRN_EXTRANEOUS_DATA && scans_begun > 0 && is_restart_marker(cinfo->err->msg_parm.i[1]);
  if (level >= 0 || reader.skipped_before_restart_) return;
  const Verdict verdict = verdict_of_warning(code, scans_begun);
  if (!verdict.ok()) reader.give_up(verdict);
}

void JpegReader::on_progress(j_common_ptr cinfo) {
  JpegReader& reader = reader_of(cinfo);
  if (reader.stop_ != nullptr && reader.stop_->load(std::memory_order_relaxed))
    reader.give_up({MEDIA_ENGINE_INVALID, 0});
}

boolean JpegReader::on_input_end(j_decompress_ptr cinfo) {
  reader_of(reinterpret_cast<j_common_ptr>(cinfo)).give_up({MEDIA_ENGINE_PICTURE_TRUNCATED, JWRN_JPEG_EOF});
}

void JpegReader::on_skip(j_decompress_ptr cinfo, long bytes) {
  if (bytes <= 0) return;
  jpeg_source_mgr& source = *cinfo->src;
  const std::size_t count = static_cast<std::size_t>(bytes);
  if (count > source.bytes_in_buffer) on_input_end(cinfo);
  source.next_input_byte += count;
  source.bytes_in_buffer -= count;
}

boolean JpegReader::on_app1(j_decompress_ptr cinfo) {
  jpeg_source_mgr& source = *cinfo->src;
  if (source.bytes_in_buffer < 2) on_input_end(cinfo);
  const std::size_t length = std::size_t{source.next_input_byte[0]} << 8 | source.next_input_byte[1];
  JpegReader& reader = reader_of(reinterpret_cast<j_common_ptr>(cinfo));
  if (length < 2) reader.give_up(verdict_of_error(JERR_BAD_LENGTH));
  if (length > source.bytes_in_buffer) on_input_end(cinfo);
  if (cinfo->input_scan_number == 0) reader.orientation_.see_app1(source.next_input_byte + 2, length - 2);
  on_skip(cinfo, static_cast<long>(length));
  return TRUE;
}

// Everything of libjpeg that can fail runs inside a step: a failure ends the step with its verdict.
Verdict JpegReader::guarded(Step step) noexcept {
  verdict_ = Verdict{};
  if (setjmp(give_up_) == 0) (this->*step)();
  return verdict_;
}

Verdict JpegReader::read_header(Arena* arena, const std::uint8_t* bytes, std::size_t size, const Limits& limits,
                                const std::atomic<bool>* stop) noexcept {
  // Tables of the picture before lay in the arena and must neither be used nor filled.
  for (auto*& table : jpeg_.quant_tbl_ptrs) table = nullptr;
  for (auto*& table : jpeg_.dc_huff_tbl_ptrs) table = nullptr;
  for (auto*& table : jpeg_.ac_huff_tbl_ptrs) table = nullptr;
  reset_jpeg_memory(&memory_, arena);
  orientation_ = OrientationFinder{};
  limits_ = &limits;
  stop_ = stop;
  skipped_before_restart_ = false;
  jpeg_.image_width = 0;
  jpeg_.image_height = 0;
  source_.next_input_byte = bytes;
  source_.bytes_in_buffer = size;
  return guarded(&JpegReader::header_step);
}

void JpegReader::header_step() {
  jpeg_read_header(&jpeg_, TRUE);
  // Skipping and cropping are exact where the picture has one scan; with several, block smoothing looks across the
  // window's edges.
  may_skip_ = jpeg_has_multiple_scans(&jpeg_) == FALSE;
  const std::uint32_t scans = !may_skip_ ? count_scans(source_.next_input_byte, source_.bytes_in_buffer) : 1;
  verdict_ = verdict_of_header(jpeg_.image_width, jpeg_.image_height, jpeg_.num_components, scans, *limits_);
}

Verdict JpegReader::begin(int shrink, const Window& window) noexcept {
  shrink_ = shrink;
  window_ = window;
  return guarded(&JpegReader::begin_step);
}

void JpegReader::begin_step() {
  jpeg_.out_color_space = jpeg_.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
  jpeg_.scale_num = 1;
  jpeg_.scale_denom = static_cast<unsigned int>(shrink_);
  jpeg_start_decompress(&jpeg_);
  // libjpeg-turbo 2.1.5 crops and skips scaled rows wrongly (4:1:0 most of all).
  if (shrink_ > 1) may_skip_ = false;
  columns_begin_ = 0;
  if (may_skip_) crop_columns();
  const std::size_t row_bytes =
      static_cast<std::size_t>(kPixelBytes * std::int64_t{jpeg_.output_width} + kResizeSlackBytes);
  stride_bytes_ = static_cast<std::int64_t>(arena_rounded(row_bytes));
  auto* const rows = memory_.arena->take_array<std::uint8_t>(static_cast<std::size_t>(stride_bytes_ * kRowGroup));
  if (rows == nullptr) give_up(verdict_of_error(JERR_OUT_OF_MEMORY));
  for (std::int64_t r = 0; r < kRowGroup; ++r) group_[r] = rows + r * stride_bytes_;
}

void JpegReader::crop_columns() {
  const std::int64_t width = jpeg_.output_width;
  const std::int64_t begin = std::max<std::int64_t>(0, window_.x_begin - kColumnMargin);
  const std::int64_t end = std::min(width, window_.x_end + kColumnMargin);
  if (end - begin < kSmallestCrop || end - begin == width) return;
  JDIMENSION x_offset = static_cast<JDIMENSION>(begin);
  JDIMENSION columns = static_cast<JDIMENSION>(end - begin);
  jpeg_crop_scanline(&jpeg_, &x_offset, &columns);
  columns_begin_ = x_offset;
}

Verdict JpegReader::read_rows(const RowSink& sink) noexcept {
  sink_ = &sink;
  return guarded(&JpegReader::rows_step);
}

// The last row of the picture is always read: libjpeg stops reading the compressed data when a skip reaches the end.
void JpegReader::rows_step() {
  discard_rows(window_.y_begin);
  std::int64_t first = window_.y_begin;
  std::int64_t have = 0;
  while (std::int64_t{jpeg_.output_scanline} < window_.y_end) {
    const std::int64_t wanted = std::min(kRowGroup - have, window_.y_end - std::int64_t{jpeg_.output_scanline});
    have += jpeg_read_scanlines(&jpeg_, group_ + have, static_cast<JDIMENSION>(wanted));
    if (have == kRowGroup || std::int64_t{jpeg_.output_scanline} == window_.y_end) {
      deliver(first, have);
      first += have;
      have = 0;
    }
  }
  discard_rows(jpeg_.output_height);
  jpeg_finish_decompress(&jpeg_);
}

void JpegReader::discard_rows(std::int64_t until) {
  const std::int64_t last = std::int64_t{jpeg_.output_height} - 1;
  const std::int64_t skip = std::min(until, last) - std::int64_t{jpeg_.output_scanline};
  if (skip > 0 && may_skip_) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(skip));
  while (std::int64_t{jpeg_.output_scanline} < until) jpeg_read_scanlines(&jpeg_, group_, 1);
}

void JpegReader::deliver(std::int64_t first, std::int64_t count) {
  if (jpeg_.out_color_space == JCS_CMYK) {
    for (std::int64_t r = 0; r < count; ++r) cmyk_to_rgbx(group_[r], jpeg_.output_width);
  }
  sink_->rows(sink_->context, group_[0], stride_bytes_, first, count);
}

void JpegReader::end() noexcept { jpeg_abort_decompress(&jpeg_); }

}  // namespace bascule::codec
