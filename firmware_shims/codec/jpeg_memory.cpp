// SPDX-License-Identifier: Apache-2.0
#include "firmware_shims/codec/jpeg_memory.h"

#include <cstring>
#include <type_traits>

#include <jerror.h>

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

}  // namespace bascule::codec
