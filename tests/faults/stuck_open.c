// SPDX-License-Identifier: Apache-2.0
// Preloaded into the ranks of a run: opening a file whose name holds "stuck" never ends, as on a file server that is
// gone.
#undef _FILE_OFFSET_BITS  // openat and openat64 are two functions here
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

int openat(int folder, const char* path, int flags, ...) {
  static int (*next)(int, const char*, int, ...);
  if (next == NULL) next = (int (*)(int, const char*, int, ...))dlsym(RTLD_NEXT, "openat");
  while (strstr(path, "stuck") != NULL) pause();
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(more, int) : 0;
  va_end(more);
  return next(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));
