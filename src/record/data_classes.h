// SPDX-License-Identifier: Apache-2.0
// The labels of a run that may be names of classes, or values: those of its training data, and the classes' numbers.
// Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/record/recorded_run.h"

namespace bascule {

struct DataClasses {
  std::vector<std::string> names;  // by number; of classes that are not the model's
  bool are_values = false;         // labels are values, and those of the model are not
  std::string note;                // for people; empty: the model's labels are the data's
};

// model: what its folder says; without names of classes, it says nothing about them. Names of the training data are
// numbered as the model does where it has the same ones, else in the order of their bytes. Labels that are numbers are
// the model's. Throws Error kData where all rows of the training data have one class, and for names in one split and
// numbers, or classes in one and values, in another.
DataClasses classes_of_data(const RunData& data, const ModelInputs& model);

// Whether all labels of the training data are strings that read as numbers, some with a decimal point or an exponent:
// values may be meant.
bool has_quoted_values(const RunData& data);

// Gives the rows of all splits the numbers of their classes' names. Throws Error kData naming the first row whose class
// is not among the model's, and where labels are values and the model has classes, or the reverse.
void number_classes(RunData* data, const ModelInputs& model);

}  // namespace bascule
