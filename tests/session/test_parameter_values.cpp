// SPDX-License-Identifier: Apache-2.0
#include "src/session/parameter_values.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "src/checkpoint/safetensors.h"
#include "tests/support/files.h"

namespace bascule::test::test_parameter_values {
namespace {

constexpr InitialValue kNormal = {0.0f, 0.5f};
// More than one thread reads or computes at a time, with an end that fills no block.
constexpr std::int64_t kElements = 5 * TensorPart::kMostBytes / 4 / 2 + 3;

// Two parameters of one piece each, of kElements.
struct TwoParameters {
  ParameterSet set;
  ParameterLayout layout;
  std::vector<float> values;

  TwoParameters() : values(2 * static_cast<std::size_t>(kElements), -1.0f) {
    for (const char* name : {"first", "second"}) {
      Parameter parameter;
      parameter.name = name;
      parameter.rows = 1;
      parameter.cols = kElements;
      parameter.pieces = {{name, {kElements}, 0, kElements, kNormal}};
      layout.places.push_back({true, static_cast<std::int64_t>(layout.places.size()) * kElements});
      set.add(parameter);
    }
  }
  ParameterMemory memory() { return {&set, &layout, values.data(), nullptr}; }
  std::vector<WantedTensor> wanted() {
    return {{"first", {kElements}, values.data()}, {"second", {kElements}, values.data() + kElements}};
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ParameterValues : public ::testing::Test {
 protected:
  // "first" and "second" with values of their own.
  ParameterValues() : path_(std::filesystem::temp_directory_path() / ("bascule_values_" + std::to_string(::getpid()))) {
    Threads one(1, false);
    StartWork work;
    initialise_parameters(&work, stored_.memory(), 11);
    work.run(one);
    const SafetensorsWritePlan plan(tensors_to_write(stored_.set, stored_.layout, stored_.values.data(), nullptr, ""));
    EXPECT_TRUE(plan.write(path_.c_str()).ok());
  }
  ~ParameterValues() override { std::filesystem::remove(path_); }

  TwoParameters stored_;
  std::string path_;
};

TEST_F(ParameterValues, InitialOnesAreThoseOfOneThreadWhateverTheThreads) {
  TwoParameters whole;
  fill_initial(whole.values.data(), 0, kElements, kNormal, 11, "first");
  fill_initial(whole.values.data() + kElements, 0, kElements, kNormal, 11, "second");
  for (const int count : {1, 2, 3, 4}) {
    Threads threads(count, false);
    TwoParameters parts;
    StartWork work;
    initialise_parameters(&work, parts.memory(), 11);
    work.run(threads);
    EXPECT_TRUE(same_bits(parts.values, whole.values)) << count;
  }
}

// Within the row, cut at its first and last element, and without it.
TEST_F(ParameterValues, AZeroRowIsZeroHoweverTheTensorIsCut) {
  InitialValue law = kNormal;
  law.zero_first = 100;
  law.zero_end = 140;
  std::vector<float> plain(200), whole(200), parts(200);
  fill_initial(plain.data(), 0, 200, kNormal, 11, "table");
  fill_initial(whole.data(), 0, 200, law, 11, "table");
  for (const std::int64_t first : {0, 100, 120, 140, 180}) {
    const std::int64_t count = first == 0 ? 100 : first == 180 ? 20 : first == 140 ? 40 : 20;
    fill_initial(parts.data() + first, first, count, law, 11, "table");
  }
  EXPECT_TRUE(same_bits(parts, whole));
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(whole[i], i >= 100 && i < 140 ? 0.0f : plain[i]) << i;
}

TEST_F(ParameterValues, ReadBySeveralThreadsAreTheBytesOfTheFile) {
  const TensorSource source = open_safetensors(path_);
  for (const int count : {1, 2, 3, 4}) {
    Threads threads(count, false);
    TwoParameters read;
    StartWork work;
    EXPECT_EQ(load_tensors(&work, source, read.wanted(), "").loaded, 2);
    work.run(threads);
    EXPECT_TRUE(same_bits(read.values, stored_.values)) << count;
  }
}

TEST_F(ParameterValues, ThatCannotBeReadAreTheSameErrorWhateverTheThreads) {
  const TensorSource source = open_safetensors(path_);
  // Cut behind the header's back, in the first tensor: parts of both fail.
  std::filesystem::resize_file(path_, static_cast<std::uintmax_t>(kElements));
  for (const int count : {1, 2, 4}) {
    Threads threads(count, false);
    TwoParameters read;
    StartWork work;
    load_tensors(&work, source, read.wanted(), "");
    const std::string line = error_of([&] { work.run(threads); });
    EXPECT_NE(line.find(": first: the file is truncated"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace bascule::test::test_parameter_values
