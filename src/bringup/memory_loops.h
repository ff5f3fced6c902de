// SPDX-License-Identifier: Apache-2.0
// Loops that move memory in one way and do nothing else, compiled for each instruction set as kernels are: the width of
// a load shows in the speed. Blocks are 64-byte aligned, their sizes multiples of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"

namespace bascule {

struct MemoryLoops {
  void (*read)(const std::byte* from, std::size_t bytes);
  void (*write)(std::byte* to, std::size_t bytes);
  void (*copy)(std::byte* to, const std::byte* from, std::size_t bytes);
  // With non-temporal stores, where the CPU has them: lines are not read before they are written.
  void (*write_around_caches)(std::byte* to, std::size_t bytes);
  // `steps` exclusive ors of registers that wait for each other: one a cycle on every x86-64 CPU. (Additions of
  // constants are not: some CPUs do several of them at once.)
  std::uint64_t (*mix_in_a_row)(std::int64_t steps);
};

// The loops of an ISA that isa_supported().
const MemoryLoops& memory_loops_for(Isa isa);

}  // namespace bascule
