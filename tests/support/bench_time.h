// SPDX-License-Identifier: Apache-2.0
// What the measuring programs share: their options, a clock, and the median of their repeats.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/isa.h"

namespace bascule {

// one_thread: processor time of the calling thread, which other programs do not lengthen; else time on the wall.
inline double seconds_of(bool one_thread) {
  timespec now{};
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The upper one of two in the middle. values: at least one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// [--isa NAME] [--threads N] [--repeats N] [WORD], and options of the program's own.
struct BenchArguments {
  Isa isa = best_isa();
  int threads = 1, repeats = 0;
  std::string word;
  std::vector<std::string> others;  // those that begin with "--"

  BenchArguments(int count, char** words) {
    for (int i = 1; i < count; ++i) {
      const std::string option = words[i];
      const auto value = [&] { return i + 1 < count ? words[++i] : ""; };
      if (option == "--isa") {
        const std::string name = value();
        for (const Isa one : kAllIsas) {
          if (name == isa_name(one)) isa = one;
        }
      } else if (option == "--threads") {
        threads = std::atoi(value());
      } else if (option == "--repeats") {
        repeats = std::atoi(value());
      } else {
        option.rfind("--", 0) == 0 ? others.push_back(option) : void(word = option);
      }
    }
  }
};

}  // namespace bascule
