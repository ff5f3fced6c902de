// SPDX-License-Identifier: Apache-2.0
// A copy of a small pipeline of the reference cases, to be changed in one place.
#pragma once

#include <filesystem>
#include <string>

#include "src/json/json.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

class ChangedPipeline {
 public:
  explicit ChangedPipeline(const std::string& name = "sd_v1") {
    namespace fs = std::filesystem;
    const std::string golden = reference_dir() + "/goldens-families/" + name;
    for (const char* part : {"tokenizer", "text_encoder", "unet", "vae", "scheduler", "model_index.json"})
      fs::copy(golden + "/" + part, path(part), fs::copy_options::recursive);
  }

  const std::string& folder() const { return folder_.path(); }
  std::string path(const std::string& file) const { return folder_.path() + "/" + file; }
  void write(const std::string& file, const std::string& content) const { folder_.write(file, content); }
  // change(Json*) of a file such as "unet/config.json".
  template <typename Change>
  void describe(const std::string& file, Change change) const {
    Json document = read_json_file(path(file));
    change(&document);
    write(file, json_text(document));
  }
  void set(const std::string& file, const std::string& key, const Json& value) const {
    describe(file, [&](Json* document) { (*document)[key] = value; });
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path(name)); }
  void rename(const std::string& from, const std::string& to) const { std::filesystem::rename(path(from), path(to)); }

 private:
  TemporaryFolder folder_;
};

}  // namespace bascule::test
