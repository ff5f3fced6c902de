// SPDX-License-Identifier: Apache-2.0
// One bring-up: what was measured, on which machine, by which program. It is also the profile that a later one is
// judged against: profile.h writes and reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/bringup/workbench.h"
#include "src/machine/machine.h"

namespace bascule {

// Whether every core computes the same bits: all cores compute the same products and kernels at the same time, and
// their results are compared by digest. Bits do not depend on the CPU, so the right ones are known beforehand.

// The digest of all results of one pass.
constexpr std::uint64_t kRecordedPassBits = 10993480473328580616u;

struct WrongCore {
  int core = 0;
  std::string problem;      // the first whose bits differ: "layer_norm_forward R=67 C=128"
  std::int64_t passes = 0;  // in which it computed something wrong
};

struct BitsResult {
  std::int64_t passes = 0;  // of each core
  double seconds = 0.0;
  std::uint64_t digest = 0;       // of the results that were taken for right in the last pass
  std::vector<WrongCore> wrong;   // by core
  bool none_as_recorded = false;  // all cores agree on other bits than the recorded ones
};

// Called with a result before it is digested; for tests, which change it.
using SeeResult = std::function<void(int core, const std::string& problem, Span<float> result)>;

// One pass at least, then passes until so many seconds are over.
BitsResult compare_bits(Workbench& bench, double seconds, const SeeResult& see = {});

struct BringUp {
  std::string program;               // its version
  bool optimised = true;             // false: a debug build
  std::string isa, started;          // "avx512", UTC
  std::int64_t cores = 0;            // that this process could use
  Machine machine;                   // when all was measured
  Counters before;                   // when it began
  std::optional<double> huge_share;  // of the memory that was measured with: in large pages
  // Of the arena that cores of one memory node touched: what lies at other nodes, the most of any node. Unknown where
  // cores of one node alone are used.
  std::optional<double> far_share;
  std::string neighbour;  // the process that kept the cores busiest meanwhile: "yes (process 1234)"; "": none did
  std::vector<Figure> figures;
  BitsResult bits;
  double seconds = 0.0;  // in all
};

// Null: not measured.
const Figure* find_figure(const BringUp& bring_up, const std::string& key);

struct BringUpOptions {
  double seconds = 30.0;          // for the rounds, about
  double bits_seconds = 0.0;      // for comparing bits: one pass at least
  std::vector<std::string> only;  // names of items; empty: all. "bits" is one too
  std::string folder = ".";
};

// The names that BringUpOptions::only takes.
std::vector<std::string> item_names();

// Throws Error kSettings for an unknown item, kDisk where the folder cannot be written, kMemory. see: as in
// compare_bits().
BringUp bring_up(const BringUpOptions& options, void (*say)(const std::string&), const SeeResult& see = {});

}  // namespace bascule
