// SPDX-License-Identifier: Apache-2.0
// Reads PNG files that PngWriter wrote back: whether they are whole, and their pixels. Before the seal or when nothing
// is sealed: allocates.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bascule {

// The pixels of a file that a PngWriter has made of a picture of that size: (height, width, 3). Empty for any other:
// the checksums of all chunks are compared, so that not a bit of it is another one.
std::vector<std::uint8_t> png_pixels(std::string_view file, std::int64_t width, std::int64_t height);

}  // namespace bascule
