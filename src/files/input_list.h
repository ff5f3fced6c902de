// SPDX-License-Identifier: Apache-2.0
// The files that a run reads: what must be on another machine for the same run. Before the seal.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace bascule {

// Files of a folder, sorted; each once.
struct InputFolder {
  std::string folder;              // as the settings name it: relative to where their paths start, or absolute
  std::vector<std::string> files;  // relative to it, or absolute, as manifests name pictures
};

class InputList {
 public:
  // A file of a folder; "": where the paths of the settings start.
  void add(const std::string& folder, std::string file);
  // A file with its folder, as it is written.
  void add_path(const std::string& written);
  // Those of the names that are there. folder: as written; resolved: the same folder, where it is.
  template <typename Names>
  void add_found(const std::string& folder, const std::string& resolved, const Names& names) {
    for (const char* const name : names) {
      if (is_there(resolved, name)) add(folder, name);
    }
  }

  // By folder.
  std::vector<InputFolder> sorted() const;

 private:
  static bool is_there(const std::string& folder, const char* name);

  std::map<std::string, std::vector<std::string>> folders_;
};

}  // namespace bascule
