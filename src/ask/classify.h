// SPDX-License-Identifier: Apache-2.0
// `bascule classify FOLDER PICTURE...`: the classes that a classifier gives pictures. Texts: classify_texts.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/ask/class_guesses.h"
#include "src/models/model.h"

namespace bascule {

struct ClassifyArguments {
  std::string folder;               // a run's output_dir, or any folder with a model
  std::vector<std::string> inputs;  // files of pictures; or a text, or two, or "-"
  std::size_t top = 5;
  bool json = false;
};

struct ClassifiedPicture {
  std::string path;
  std::vector<ClassGuess> best;  // best first; equal ones by class number
  std::string refused;           // why there are none; empty: there are
};

// In the order of the pictures. Throws Error kData for the folder, and for logits that are not finite.
std::vector<ClassifiedPicture> classify(const ClassifyArguments& arguments, const Model& model, Isa isa, int threads);

// A JSON array of {"path", "labels": [{"label", "probability"}]} or {"path", "error"}.
std::string classify_json(const std::vector<ClassifiedPicture>& pictures);
std::string classify_text(const std::vector<ClassifiedPicture>& pictures);

// Prints the answer about pictures, or texts, whatever the model reads. Returns the exit code: that of bad data if a
// picture was refused, after all others. Throws Error.
int classify_command(const ClassifyArguments& arguments);

}  // namespace bascule
