// SPDX-License-Identifier: Apache-2.0
// A copy of a reference case that a test changes, and what `bascule verify` says about it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/checkpoint/safetensors.h"
#include "src/json/json.h"
#include "src/verify/verify.h"
#include "tests/support/files.h"
#include "tests/support/reference_dir.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {

inline std::string golden(const std::string& name) { return reference_dir() + "/goldens/" + name; }

inline std::vector<std::string> failures(const VerifiedCase& result) {
  std::vector<std::string> names;
  for (const VerifiedTensor& tensor : result.tensors) {
    if (!tensor.passed()) names.push_back(tensor.name);
  }
  return names;
}

// The tensors of a safetensors file, to be written there again.
struct Rewrite {
  Rewrite(const std::string& file, const std::function<bool(const std::string& tensor)>& leaves_out) : path(file) {
    const TensorSource source = open_safetensors(path);
    for (const StoredTensor& tensor : source.tensors()) {
      if (leaves_out(tensor.name)) continue;
      bytes.emplace_back(static_cast<std::size_t>(element_count(tensor.shape)) * element_bytes(tensor.dtype));
      source.read_bytes(bytes.back().data(), tensor);
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes.back().data()});
    }
  }
  void write() { EXPECT_TRUE(SafetensorsWritePlan(std::move(tensors)).write(path.c_str()).ok()); }

  const std::string path;
  std::deque<std::vector<char>> bytes;
  std::vector<TensorToWrite> tensors;
};

// A copy of a case, to be changed in one place.
class ChangedCase {
 public:
  explicit ChangedCase(const std::string& name) {
    std::filesystem::copy(golden(name), folder_.path(),
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  }

  // One float32 element of a safetensors file, times `factor`.
  void scale(const std::string& file, const std::string& tensor, std::size_t element, float factor) {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / file;
    std::string bytes = read_file(path);
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const Json entries = parse_json(std::string_view(bytes).substr(sizeof header, header), path.string());
    const Json& entry = entries[tensor];
    ASSERT_EQ(entry["dtype"], "F32");
    const std::size_t begin = static_cast<std::size_t>(entry["data_offsets"][0].integer()) + element * sizeof(float);
    ASSERT_LT(begin, static_cast<std::size_t>(entry["data_offsets"][1].integer()));
    char* const place = bytes.data() + sizeof header + header + begin;
    float value = 0.0f;
    std::memcpy(&value, place, sizeof value);
    ASSERT_NE(value * factor, value);
    value *= factor;
    std::memcpy(place, &value, sizeof value);
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // A tensor of a safetensors file gets another name of the same length.
  void rename(const std::string& file, const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / file;
    std::string bytes = read_file(path);
    const std::size_t place = bytes.find("\"" + from + "\"");
    ASSERT_NE(place, std::string::npos);
    bytes.replace(place + 1, from.size(), to);
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // A safetensors file without the tensors of which `removes` is true.
  void remove(const std::string& file, const std::function<bool(const std::string& tensor)>& removes) {
    Rewrite rewrite(folder_.path() + "/" + file, removes);
    rewrite.write();
  }

  // A safetensors file with one more tensor.
  void add(const std::string& file, const std::string& tensor, const std::vector<std::int64_t>& values) {
    Rewrite rewrite(folder_.path() + "/" + file, [](const std::string&) { return false; });
    rewrite.tensors.push_back({tensor, DType::kInt64, {static_cast<std::int64_t>(values.size())}, values.data()});
    rewrite.write();
  }

  // A safetensors file with a copy of one of its tensors.
  void copy(const std::string& file, const std::string& from, const std::string& to) {
    Rewrite rewrite(folder_.path() + "/" + file, [](const std::string&) { return false; });
    const auto found = std::find_if(rewrite.tensors.begin(), rewrite.tensors.end(),
                                    [&](const TensorToWrite& tensor) { return tensor.name == from; });
    ASSERT_NE(found, rewrite.tensors.end()) << from;
    TensorToWrite copied = *found;
    copied.name = to;
    rewrite.tensors.push_back(copied);
    rewrite.write();
  }

  // The document of case.json, or another of the case's JSON files.
  template <typename Change>
  void describe(Change change, const std::string& file = "case.json") {
    const std::string path = folder_.path() + "/" + file;
    Json description = read_json_file(path);
    change(&description);
    std::ofstream(path) << json_text(description);
  }

  void erase(const std::string& file) { std::filesystem::remove(folder_.path() + "/" + file); }

  VerifiedCase verify(Precision precision = Precision::kFloat32) const {
    return verify_case(folder_.path(), precision, kernels_for(best_isa()), 1);
  }
  std::vector<std::string> failed() const { return failures(verify()); }
  const std::string& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace bascule::test
