// SPDX-License-Identifier: Apache-2.0
// `bascule decode`: JPEG, PNG and WebP files to the pixels that the model would see, in a safetensors file; one JSON
// line a file on standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

struct DecodeArguments {
  std::int64_t size = 288;
  // training | processor; empty: as the model's run prepared pictures, or as its processor does where no run left the
  // folder; training where there is no model.
  std::string preprocessing;
  std::string model;  // a folder whose processor file counts; empty: mean and std
  // Mean and deviation of R, G and B in 0..1; CLIP's by default.
  std::vector<double> mean = {0.48145466, 0.4578275, 0.40821073};
  std::vector<double> std = {0.26862954, 0.26130258, 0.27577711};
  bool raw = false;    // 0..255 before normalising
  std::string output;  // a safetensors file: float32 (3, size, size) under each file's base name
  std::vector<std::string> files;
};

// The side of a model's pictures. Throws Error kData for a folder without a config.json that can be read.
std::int64_t image_size_of(const std::string& model);

// One line a file: {"file", "ok", "width", "height", "error"}; width and height are upright, null where unknown; error
// is null where ok. Goes on after a file that is refused or cannot be read. Returns the exit code: 0, or 3 if any was.
// Throws Error: kSettings for the arguments, kData for a broken media engine, kMemory, kDisk. The pixels of all files
// are held in memory until the end.
int decode_command(const DecodeArguments& arguments);

}  // namespace bascule
