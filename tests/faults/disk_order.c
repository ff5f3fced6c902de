// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: lists what it does to files and folders, in its order, in the file that DISK_ORDER_LOG
// names. A line is a word and one path, or two: write, sync, rename, mkdir, remove.
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void path_of(int file, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX - 1);
  path[length > 0 ? length : 0] = '\0';
}

// With system calls alone: nothing is allocated, and nothing of this is listed.
static void list(const char* what, const char* path, const char* other) {
  const char* const name = getenv("DISK_ORDER_LOG");
  char line[2 * PATH_MAX + 16];
  if (name == NULL) return;
  const int length = snprintf(line, sizeof line, "%s %s%s%s\n", what, path, other[0] != '\0' ? " " : "", other);
  const int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0) return;
  if (syscall(SYS_write, file, line, (size_t)length) != length) abort();
  syscall(SYS_close, file);
}

static void list_file(const char* what, int file) {
  char path[PATH_MAX];
  path_of(file, path);
  if (path[0] == '/') list(what, path, "");
}

#define NEXT(type, name, ...)       \
  static type (*next)(__VA_ARGS__); \
  if (next == NULL) next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void* data, size_t bytes) {
  NEXT(ssize_t, write, int, const void*, size_t);
  list_file("write", file);
  return next(file, data, bytes);
}

int fsync(int file) {
  NEXT(int, fsync, int);
  const int result = next(file);
  if (result == 0) list_file("sync", file);
  return result;
}

int rename(const char* from, const char* to) {
  NEXT(int, rename, const char*, const char*);
  const int result = next(from, to);
  if (result == 0) list("rename", from, to);
  return result;
}

int mkdir(const char* path, mode_t mode) {
  NEXT(int, mkdir, const char*, mode_t);
  const int result = next(path, mode);
  if (result == 0) list("mkdir", path, "");
  return result;
}

int unlinkat(int folder, const char* name, int flags) {
  NEXT(int, unlinkat, int, const char*, int);
  const int result = next(folder, name, flags);
  char path[PATH_MAX] = "";
  if (folder != AT_FDCWD) path_of(folder, path);
  if (result == 0) list("remove", path, name);
  return result;
}
