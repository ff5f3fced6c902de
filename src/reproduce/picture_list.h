// SPDX-License-Identifier: Apache-2.0
// pictures.xxh3 of a finished run: the digest of every picture that the run has read, as it was first read. A line for
// each: digest, split, and the picture's place as a JSON string. Not sealed; throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/loader/loader.h"
#include "src/record/recorded_run.h"

namespace bascule {

inline constexpr char kPictureListFile[] = "pictures.xxh3";

struct ReadPicture {
  std::string split, place;
  std::uint64_t digest = 0;
};

// How many pictures the run has, and how many it has read here or on this machine's other ranks.
struct PictureCount {
  std::int64_t listed = 0, pictures = 0;
};

PictureCount write_picture_list(const std::string& folder, const RunData& data, Loader& loader);
std::vector<ReadPicture> read_picture_list(const std::string& folder);
// A picture's place as the list has it: with replacement characters where its name is not UTF-8.
std::string listed_name(const std::string& location);

}  // namespace bascule
