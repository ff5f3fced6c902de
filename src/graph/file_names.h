// SPDX-License-Identifier: Apache-2.0
// How the names of a model's tensors may differ in a file: published files are older and newer than the names that a
// class writes today.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/span.h"

namespace bascule {

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
