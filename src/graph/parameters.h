// SPDX-License-Identifier: Apache-2.0
// The parameters of a run, and their names in files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/span.h"

namespace bascule {

// The parameters of a run: one list for all its graphs. A parameter is a matrix of ours; its pieces are the tensors of
// the checkpoint that lie in it end to end (query, key and value of one attention are one parameter, and one matrix
// product).

// The law of fresh values: constant, or normal with mean 0.
struct InitialValue {
  float constant = 0.0f;
  float standard_deviation = 0.0f;            // > 0: normal
  std::int64_t zero_first = 0, zero_end = 0;  // elements that are zero all the same
};

// One tensor of the checkpoint.
struct ParameterPiece {
  std::string name;                 // as Hugging Face writes it; behind "unet/" where it is of the part "unet"
  std::vector<std::int64_t> shape;  // as Hugging Face writes it; empty: a scalar
  std::int64_t first_element = 0;   // in the parameter
  std::int64_t elements = 0;
  InitialValue initial;
  int group = -1;  // index of the ParameterGroup that it belongs to; -1: none. Set by ParameterSet::add
  // The file's dimension that is dimension 0, 1, ... here; empty: as in the file, which RunDivision::kByMatrix needs.
  std::vector<int> order = {};
};

// A group of tensors that the user sets apart from the rule for all.
struct ParameterGroup {
  std::string match;    // a glob (fnmatch) on names of the checkpoint, with or without the body's prefix
  bool freeze = false;  // its tensors keep their values: no gradient, no moments
};

struct Parameter {
  std::string name;
  std::int64_t rows = 0, cols = 0;
  bool trained = true;
  bool decayed = true;  // weight decay applies
  std::vector<ParameterPiece> pieces;
  bool rounded = false;  // stored as bf16: nothing reads more of it. Set by store_rounded_parameters()

  std::int64_t elements() const { return rows * cols; }
};

class ParameterSet {
 public:
  // Before the first add(). A tensor belongs to the first group that matches it. body_prefix: of the names of the
  // body's tensors; a pattern may leave it out.
  void set_groups(std::vector<ParameterGroup> groups, std::string body_prefix);
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  // Returns the index of the parameter of that name, adding it if it is new. A second description must equal the first.
  // It is not trained where groups freeze all its pieces.
  int add(Parameter parameter);
  int size() const { return static_cast<int>(parameters_.size()); }
  void set_rounded(int index, bool rounded) { parameters_[static_cast<std::size_t>(index)].rounded = rounded; }
  const Parameter& operator[](int index) const { return parameters_[static_cast<std::size_t>(index)]; }

  // Whether group `index` matches the tensor of this name, be it in an earlier group or not.
  bool matches(std::size_t index, const std::string& name) const;

 private:
  void put_into_groups(Parameter* parameter) const;

  std::vector<Parameter> parameters_;
  std::vector<ParameterGroup> groups_;
  std::string body_prefix_;
};

// Where each parameter lies. Trained parameters and their gradients share one order and these offsets; the others lie
// in a range of their own, and those that are stored as bf16 in a third. Offsets are in elements, and multiples of 64
// bytes.
struct ParameterLayout {
  struct Place {
    bool trained = false;
    std::int64_t offset = 0;
    bool rounded = false;  // not trained then
  };
  struct Run {  // neighbouring trained tensors with the same decay, of one group; or one tensor of a checkpoint
    std::int64_t offset = 0, elements = 0;
    bool decayed = false;
    int group = -1;
    // Sizes of its tensor, which may end before the run; 0 unless RunDivision::kByMatrix. A tensor's last two
    // dimensions are the rows and columns of a matrix, those before them count its matrices. A vector or a scalar is no
    // matrix: a row.
    std::int64_t matrices = 0, rows = 0, cols = 0;
  };
  std::vector<Place> places;  // by parameter index
  std::vector<Run> runs;      // cover the trained range, in order; gaps between parameters are zero and stay zero
  std::int64_t trained_elements = 0;
  std::int64_t fixed_elements = 0;
  std::int64_t rounded_elements = 0;  // of two bytes
};

// Where a run of the trained range ends.
enum class RunDivision {
  kByRule,    // where the decay or the group changes
  kByTensor,  // behind every tensor of a checkpoint, for an optimizer that measures tensors; the gap belongs to it
  kByMatrix,  // the same, and the update keeps the rows of a tensor's matrices whole
};

// `order`: the trained parameters in the order in which backward finishes their gradients; those missing there follow
// in theirs.
ParameterLayout lay_out_parameters(const ParameterSet& parameters, Span<const int> order,
                                   RunDivision division = RunDivision::kByRule);

// How the names of a model's tensors may differ in a file: published files are older and newer than the names that a
// class writes today.

// A part of a name, and what stands in its place.
struct NameChange {
  const char *part, *instead;
};

struct FileNames {
  std::string_view prefix;  // of the body's tensors: a file may leave it out, or a caller who wants a bare model
  Span<const NameChange> changes{};  // made one after another, where their part is in the name
  // A table, and the full names of the tensors that are tied to it: a file may hold it under one of those alone.
  std::string table = {};
  std::vector<std::string> tied = {};

  FileNames(std::string_view body_prefix) : prefix(body_prefix) {}
  FileNames(const char* body_prefix) : prefix(body_prefix) {}
  template <std::size_t count>
  FileNames(std::string_view body_prefix, const NameChange (&other)[count])
      : prefix(body_prefix), changes(other, count) {}

  // The other name of a tensor; the same where no change applies.
  std::string other(std::string name) const {
    for (const NameChange& change : changes) {
      const std::size_t place = name.find(change.part);
      if (place != std::string::npos) name.replace(place, std::string_view(change.part).size(), change.instead);
    }
    return name;
  }
};

}  // namespace bascule
