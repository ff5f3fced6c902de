// SPDX-License-Identifier: Apache-2.0
// `bascule classify FOLDER "text" ["second text"]`: the classes, or the value, that a model gives texts, or the
// entities that it finds in them.
#pragma once

#include "src/ask/classify.h"
#include "src/models/model.h"

namespace bascule {

// Prints the answers: of the one text, or pair, or with "-" alone of each line of standard input, where a tab stands
// between the texts of a pair. Returns the exit code. Throws Error: kSettings for the arguments, kData for the folder,
// for texts that are not UTF-8 and for logits that are not finite. The lines before such a one are answered; a document
// then has their answers and the error, which is said, and its exit code returned.
int classify_texts_command(const ClassifyArguments& arguments, const Model& model);

}  // namespace bascule
