// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: takes the place of libwebp's question what the CPU has, and answers that it has nothing, so
// that libwebp decodes in plain C; says so once on standard error.
#include <string.h>
#include <unistd.h>

static int has_none(int feature) {
  static int is_said = 0;
  static const char line[] = "libwebp: plain C\n";
  (void)feature;
  if (!is_said) is_said = write(STDERR_FILENO, line, strlen(line)) > 0;
  return 0;
}

int (*VP8GetCPUInfo)(int feature) = has_none;
