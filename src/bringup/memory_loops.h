// SPDX-License-Identifier: Apache-2.0
// Loops that move memory in one way and do nothing else. Blocks are 64-byte aligned, their sizes multiples of 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule {

void read_memory_block(const std::byte* from, std::size_t bytes) noexcept;
void write_memory_block(std::byte* to, std::size_t bytes) noexcept;
void copy_memory_block(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
// With non-temporal stores, where the CPU has them: lines are not read before they are written.
void write_memory_block_around_caches(std::byte* to, std::size_t bytes) noexcept;

// `steps` exclusive ors of registers that wait for each other: one a cycle on every x86-64 CPU. (Additions of constants
// are not: some CPUs do several of them at once.)
std::uint64_t mix_in_a_row(std::int64_t steps) noexcept;

}  // namespace bascule
