// SPDX-License-Identifier: Apache-2.0
// `bascule classify FOLDER PICTURE...`: the classes that an image classifier gives pictures.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/isa.h"

namespace bascule {

struct ClassifyArguments {
  std::string folder;                 // a run's output_dir, or any folder with a model
  std::vector<std::string> pictures;  // files
  std::size_t top = 5;
  bool json = false;
};

struct ClassGuess {
  std::string label;  // of config.json's id2label; the class's number where there are no names
  double probability = 0.0;
};

struct ClassifiedPicture {
  std::string path;
  std::vector<ClassGuess> best;  // best first; equal ones by class number
  std::string refused;           // why there are none; empty: there are
};

// In the order of the pictures. Throws Error kData for the folder, and for logits that are not finite.
std::vector<ClassifiedPicture> classify(const ClassifyArguments& arguments, Isa isa, int threads);

// A JSON array of {"path", "labels": [{"label", "probability"}]} or {"path", "error"}.
std::string classify_json(const std::vector<ClassifiedPicture>& pictures);
std::string classify_text(const std::vector<ClassifiedPicture>& pictures);

// Prints the answer. Returns the exit code: that of bad data if a picture was refused, after all others. Throws Error.
int classify_command(const ClassifyArguments& arguments);

}  // namespace bascule
