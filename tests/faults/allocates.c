// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: allocates when the folder of a checkpoint is made (ALLOCATE_IN=saving) and when a picture
// below a folder "validation" is opened (ALLOCATE_IN=evaluation). The library's name begins with libstdc++, so the
// guard takes the call for one of ours.
#undef _FILE_OFFSET_BITS  // open and open64, openat and openat64 are two functions here
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void* volatile kept;

static void allocate_in(const char* phase, const char* path, const char* word) {
  const char* const wanted = getenv("ALLOCATE_IN");
  if (wanted != NULL && strcmp(wanted, phase) == 0 && strstr(path, word) != NULL) kept = malloc(100);
}

int mkdir(const char* path, mode_t mode) {
  static int (*next)(const char*, mode_t);
  if (next == NULL) next = (int (*)(const char*, mode_t))dlsym(RTLD_NEXT, "mkdir");
  allocate_in("saving", path, "bascule-checkpoint-");
  return next(path, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static int (*next)(int, const char*, int, ...);
  if (next == NULL) next = (int (*)(int, const char*, int, ...))dlsym(RTLD_NEXT, "openat");
  allocate_in("evaluation", path, "validation-");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(more, int) : 0;
  va_end(more);
  return next(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));
