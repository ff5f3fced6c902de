// SPDX-License-Identifier: Apache-2.0
// JPEG files of any size and kind for tests that need what the reference set has not: a smooth picture with some
// texture, by libjpeg.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

namespace bascule::test {

struct JpegKind {
  bool progressive = false;
  bool subsampled = true;  // 4:2:0; else 4:4:4
  int quality = 85;
};

inline std::vector<std::uint8_t> encode_jpeg(int width, int height, const JpegKind& kind = {}) {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, kind.quality, TRUE);
  if (!kind.subsampled) jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(width) * 3);
  while (jpeg.next_scanline < jpeg.image_height) {
    const int y = static_cast<int>(jpeg.next_scanline);
    for (int x = 0; x < width; ++x) {
      row[3 * static_cast<std::size_t>(x)] = static_cast<std::uint8_t>(x * 255 / width);
      row[3 * static_cast<std::size_t>(x) + 1] = static_cast<std::uint8_t>((x * y) >> 4);
      row[3 * static_cast<std::size_t>(x) + 2] = static_cast<std::uint8_t>(y * 255 / height);
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::vector<std::uint8_t> file(bytes, bytes + size);
  std::free(bytes);
  return file;
}

}  // namespace bascule::test
