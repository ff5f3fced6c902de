// SPDX-License-Identifier: Apache-2.0
// `bascule verify --bits`: a small training run, made in memory, whose digest is the same on every machine. It goes
// through record, plan, seal and replay as any run does, and covers dropout, every head of every family and the update.
#pragma once

#include <cstdint>

#include "kernels/isa.h"
#include "src/verify/verify.h"

namespace bascule {

// The digest of the run on every machine. A change of the arithmetic changes it: `bascule verify --bits --json` prints
// the new one.
inline constexpr std::uint64_t kRecordedBits = 0x421cb096d06feac4;
inline constexpr std::uint64_t kRecordedBitsOfTiles = 0xba9eb572a6a10cc8;

// XXH3 of all weights, moments, losses, gradient norms, learning rates and outputs of the run.
// With kTiles, of the half of it that is in bf16 alone.
std::uint64_t compute_bits(Isa isa, int threads, Bf16Law law = Bf16Law::kPairs);

// Prints to standard output whether the digest is the recorded one. Returns the exit code, 0 or 7.
int print_bits(std::uint64_t digest, std::uint64_t recorded, Isa isa, int threads, bool json);

// Throws Error for an instruction set that this CPU does not have.
int verify_bits_command(const VerifyArguments& arguments);

}  // namespace bascule
