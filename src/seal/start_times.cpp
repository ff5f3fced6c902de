// SPDX-License-Identifier: Apache-2.0
#include "src/seal/start_times.h"

#include <cstdio>

namespace bascule {
namespace {

constexpr const char* kVerbs[StartWork::kKinds] = {"touched", "read", "initialised"};

std::string seconds_text(std::int64_t milliseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", 1e-3 * static_cast<double>(milliseconds));
  return text;
}

}  // namespace

void StartTimes::end(const char* name) { phases_.push_back({name, (monotonic_ns() - began_ns_) / 1'000'000, ""}); }

void StartTimes::end(const char* name, const StartWork::Figures& work) {
  end(name);
  std::string& text = phases_.back().work;
  for (int kind = 0; kind < StartWork::kKinds; ++kind) {
    if (work.bytes[kind] == 0) continue;
    char part[96];
    std::snprintf(part, sizeof part, "%s%s %lld MiB in %.3f", text.empty() ? "" : ", ", kVerbs[kind],
                  static_cast<long long>(work.bytes[kind] >> 20), work.seconds[kind]);
    text += part;
  }
  if (!text.empty()) text = " (time of all threads: " + text + ")";
}

std::string StartTimes::line() const {
  std::string text;
  std::int64_t before = 0;
  for (const Phase& phase : phases_) {
    text += (text.empty() ? "" : ", ") + phase.name + " " + seconds_text(phase.end_ms - before) + phase.work;
    before = phase.end_ms;
  }
  return "start: " + seconds_text(before) + " s: " + text;
}

}  // namespace bascule
