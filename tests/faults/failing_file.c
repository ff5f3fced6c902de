// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: files whose path holds FAILING_PATH cannot be opened (FAILING_CALL=open), read (pread) or
// created (create, which is making folders too), with the errno FAILING_ERROR.
#undef _FILE_OFFSET_BITS  // open and open64 are two functions here, as are openat and openat64
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fails(const char* call, const char* path) {
  const char* const chosen = getenv("FAILING_CALL");
  const char* const part = getenv("FAILING_PATH");
  const char* const error = getenv("FAILING_ERROR");
  if (chosen == NULL || part == NULL || error == NULL || strcmp(chosen, call) != 0 || strstr(path, part) == NULL) return 0;
  errno = atoi(error);
  return 1;
}

int open(const char* path, int flags, ...) {
  static int (*next)(const char*, int, ...);
  if (next == NULL) next = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  if (fails("open", path) || ((flags & O_CREAT) != 0 && fails("create", path))) return -1;
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(more, int) : 0;
  va_end(more);
  return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char* path, int flags, ...) {
  static int (*next)(int, const char*, int, ...);
  if (next == NULL) next = (int (*)(int, const char*, int, ...))dlsym(RTLD_NEXT, "openat");
  if (fails("open", path) || ((flags & O_CREAT) != 0 && fails("create", path))) return -1;
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(more, int) : 0;
  va_end(more);
  return next(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

int mkdir(const char* path, mode_t mode) {
  static int (*next)(const char*, mode_t);
  if (next == NULL) next = (int (*)(const char*, mode_t))dlsym(RTLD_NEXT, "mkdir");
  return fails("create", path) ? -1 : next(path, mode);
}

ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  static ssize_t (*next)(int, void*, size_t, off_t);
  if (next == NULL) next = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length > 0) {
    path[length] = '\0';
    if (fails("pread", path)) return -1;
  }
  return next(file, to, bytes, offset);
}

ssize_t pread64(int file, void* to, size_t bytes, off_t offset) __attribute__((alias("pread")));
