// SPDX-License-Identifier: Apache-2.0
// `bascule verify FOLDER...`: runs reference cases (float64 truth of the reference implementation beside its own
// error) and judges ours tensor by tensor. A folder is a case, or holds cases. The rule: in float32 at most max(3 x the
// reference's error, 2e-6); in bf16 1 - cosine of gradients at most max(2 x that of torch.autocast, 0.001). What a case
// holds and this program does not compute is printed as not compared (verify_case.h), also a whole case of a family
// or head that it lacks.
#pragma once

#include <string>
#include <vector>

#include "kernels/gemm_tile.h"
#include "kernels/table.h"
#include "src/verify/verify_case.h"

namespace bascule {

struct VerifyArguments {
  std::vector<std::string> folders;
  std::string isa;                    // "auto", "avx2", "avx512", "avx512_bf16", "amx", "scalar"
  std::string precision = "float32";  // or "bf16"
  std::string bf16_sums;              // "pairs" or "tiles"; "": tiles with amx, pairs else
  int threads = 0;                    // 0: every core
  bool bits = false;                  // no folders: the small run of verify_bits.h
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

}  // namespace bascule
