// SPDX-License-Identifier: Apache-2.0
// One bring-up: what was measured, on which machine, by which program. It is also the profile that a later one is
// judged against: profile.h writes and reads it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/bringup/bits.h"
#include "src/bringup/rounds.h"
#include "src/machine/machine.h"

namespace bascule {

struct BringUp {
  std::string program;               // its version
  bool optimised = true;             // false: a debug build
  std::string isa, started;          // "avx512", UTC
  std::int64_t cores = 0;            // that this process could use
  Machine machine;                   // when all was measured
  Counters before;                   // when it began
  std::optional<double> huge_share;  // of the memory that was measured with: in large pages
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
