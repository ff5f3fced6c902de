// SPDX-License-Identifier: Apache-2.0
// `bascule verify FOLDER...`: runs reference cases (float64 truth of the reference implementation beside its own
// error) and judges ours tensor by tensor. A folder is a case, or holds cases. The rule: in float32 at most max(3 x the
// reference's error, 2e-6); in bf16 1 - cosine of gradients at most max(2 x that of torch.autocast, 0.001). What a case
// holds and this program does not compute is printed as not compared (verify_case.h), also a whole case of a family
// or head that it lacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm_tile.h"
#include "kernels/isa.h"
#include "kernels/table.h"
#include "src/verify/verify_case.h"

namespace bascule {

struct VerifyArguments {
  std::vector<std::string> folders;
  std::string isa;                    // "auto", "avx2", "avx512", "avx512_bf16", "amx", "scalar"
  std::string precision = "float32";  // or "bf16"
  std::string bf16_sums;              // "pairs" or "tiles"; "": tiles with amx, pairs else
  int threads = 0;                    // 0: every core
  bool bits = false;                  // no folders: the small run of verify_bits_command()
  bool json = false;
};

// arguments.threads, or every core.
int verify_threads(const VerifyArguments& arguments);
Bf16Law law_of(const VerifyArguments& arguments);

VerifiedCase verify_case(const std::string& folder, Precision precision, const KernelTable& kernels, int threads);

// Prints to standard output (tables, or one JSON document). Returns the exit code: 0 if every case passed or is of a
// family or head that this program lacks, 3 otherwise. Any other case of which nothing is compared does not pass.
// Throws Error.
int verify_command(const VerifyArguments& arguments);

// `bascule verify --bits`: a small training run, made in memory, whose digest is the same on every machine. It goes
// through record, plan, seal and replay as any run does, and covers dropout, every head of every family and the update.

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
