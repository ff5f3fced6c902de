#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No weak symbol and no approximate instruction in an ISA library of a debug build. A weak symbol is an inline function;
# compiled with AVX-512 it could be the copy that the linker keeps for everyone, and the program would die on a smaller CPU.
# An approximate reciprocal or square root (rcp, rsqrt) gives other bits on another CPU.
#   tools/check_isa_symbols.sh BUILD_FOLDER
set -euo pipefail
build=$1

status=0
found=0
while IFS= read -r library; do
  found=$((found + 1))
  # A thin archive names its objects relative to itself; nm knows.
  weak=$(nm --demangle "$library" | grep -E '^[0-9a-f ]* [VWvwu] ' || true)
  if [ -n "$weak" ]; then
    printf '%s has weak symbols:\n%s\n' "$library" "$weak"
    status=1
  fi
  approximate=$(objdump -d --no-show-raw-insn "$library" | grep -E '\sv?r(cp|sqrt)[0-9ps]' || true)
  if [ -n "$approximate" ]; then
    printf '%s has approximate instructions:\n%s\n' "$library" "$approximate"
    status=1
  fi
done < <(find "$build/kernels" -name 'libkernels_*.a')

if [ "$found" = 0 ]; then
  echo "no ISA library under $build/kernels" >&2
  exit 1
fi
exit "$status"
