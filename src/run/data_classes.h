// SPDX-License-Identifier: Apache-2.0
// The classes of a run whose labels may be names: those of its training data, and their numbers. Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/run/recorded_run.h"

namespace bascule {

struct DataClasses {
  std::vector<std::string> names;  // by number; empty: the model's classes are the data's
  std::string note;                // for people, where there are names
};

// of_model: the names that the model's folder gives its classes, by number; empty: it says nothing about them. Names
// of the training data are numbered as the model does where it has the same ones, else in the order of their bytes.
// Labels that are numbers are the model's. Throws Error kData where all rows of the training data have one class, and
// for names in one split and numbers in another.
DataClasses classes_of_data(const RunData& data, const std::vector<std::string>& of_model);

// Gives the rows of all splits the numbers of their classes' names. Throws Error kData naming the first row whose class
// is not among the names, or whose number is not below `classes`.
void number_classes(RunData* data, const std::vector<std::string>& names, std::int64_t classes);

}  // namespace bascule
