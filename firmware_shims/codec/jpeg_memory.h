// SPDX-License-Identifier: Apache-2.0
// libjpeg's memory manager, ours: everything it asks for while it works on a picture comes out of that picture's arena.
// Nothing is given back before the next picture; virtual arrays are whole in memory. Does not fit: error_exit with
// JERR_OUT_OF_MEMORY. Include after <cstdio>; jpeglib.h stays within codec/.
#pragma once

#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include "firmware_shims/codec/arena.h"

namespace bascule::codec {

struct JpegMemory {
  jpeg_memory_mgr methods;  // first: libjpeg's pointer to it is a pointer to this
  Arena* arena;
  jvirt_sarray_control* sample_arrays;
  jvirt_barray_control* block_arrays;
};

// Fills `methods`. The arena is set before each picture.
void init_jpeg_memory(JpegMemory* memory) noexcept;

// Before a picture.
void reset_jpeg_memory(JpegMemory* memory, Arena* arena) noexcept;

}  // namespace bascule::codec
