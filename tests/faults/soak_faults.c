// SPDX-License-Identifier: Apache-2.0
// Preloaded into the runs of tools/soak. While a file of that name is in the folder SOAK_FAULTS:
//
//   clock_back   the time of day is an hour earlier
//   unreadable   files below SOAK_DATA cannot be opened to be read: EIO, as on a damaged disk
//   read_only    nothing below SOAK_OUTPUT can be written, made, renamed or removed: EROFS, as on a file system that
//   the
//                kernel mounts read-only after an error; a file system with files open cannot be mounted so by hand
#undef _FILE_OFFSET_BITS  // open and open64 are two functions here, as are the others in pairs
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
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int is_on(const char* fault) {
  const char* const folder = getenv("SOAK_FAULTS");
  char path[PATH_MAX];
  const int before = errno;
  if (folder == NULL || snprintf(path, sizeof path, "%s/%s", folder, fault) >= (int)sizeof path) return 0;
  const int found = access(path, F_OK) == 0;
  errno = before;
  return found;
}

static int lies_below(const char* path, const char* variable) {
  const char* const folder = getenv(variable);
  return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

// The path of an open file, or of one relative to an open folder; "" where it is no file.
static void path_of(int descriptor, const char* name, char* path) {
  char link[64];
  path[0] = '\0';
  if (name != NULL && (name[0] == '/' || descriptor == AT_FDCWD)) {
    snprintf(path, PATH_MAX, "%s", name);
    return;
  }
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const int before = errno;
  const ssize_t bytes = readlink(link, path, PATH_MAX - 1);
  errno = before;
  path[bytes < 0 ? 0 : bytes] = '\0';
  if (bytes < 0 || name == NULL) return;
  snprintf(path + bytes, (size_t)(PATH_MAX - bytes), "/%s", name);
}

static int refuses_change(int descriptor, const char* name) {
  char path[PATH_MAX];
  if (!is_on("read_only")) return 0;
  path_of(descriptor, name, path);
  if (!lies_below(path, "SOAK_OUTPUT")) return 0;
  errno = EROFS;
  return 1;
}

static int refuses_open(int folder, const char* name, int flags) {
  char path[PATH_MAX];
  if ((flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0) return refuses_change(folder, name);
  if ((flags & (O_DIRECTORY | O_PATH)) != 0 || !is_on("unreadable")) return 0;
  path_of(folder, name, path);
  if (!lies_below(path, "SOAK_DATA")) return 0;
  errno = EIO;
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define MODE_OF(flags)                                                        \
  va_list more;                                                               \
  va_start(more, flags);                                                      \
  const mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(more, int) : 0; \
  va_end(more)

int open(const char* path, int flags, ...) {
  MODE_OF(flags);
  return refuses_open(AT_FDCWD, path, flags) ? -1 : NEXT(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags);
  return refuses_open(folder, path, flags) ? -1 : NEXT(openat)(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

FILE* fopen(const char* path, const char* mode) {
  const int flags = strpbrk(mode, "wa+") != NULL ? O_WRONLY : O_RDONLY;
  return refuses_open(AT_FDCWD, path, flags) ? NULL : NEXT(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));

ssize_t write(int file, const void* data, size_t bytes) {
  return refuses_change(file, NULL) ? -1 : NEXT(write)(file, data, bytes);
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  return refuses_change(file, NULL) ? -1 : NEXT(pwrite64)(file, data, bytes, at);
}
int ftruncate64(int file, off64_t bytes) { return refuses_change(file, NULL) ? -1 : NEXT(ftruncate64)(file, bytes); }

int rename(const char* from, const char* to) { return refuses_change(AT_FDCWD, to) ? -1 : NEXT(rename)(from, to); }
int renameat(int from_folder, const char* from, int folder, const char* to) {
  return refuses_change(folder, to) ? -1 : NEXT(renameat)(from_folder, from, folder, to);
}
int renameat2(int from_folder, const char* from, int folder, const char* to, unsigned flags) {
  return refuses_change(folder, to) ? -1 : NEXT(renameat2)(from_folder, from, folder, to, flags);
}
int mkdir(const char* path, mode_t mode) { return refuses_change(AT_FDCWD, path) ? -1 : NEXT(mkdir)(path, mode); }
int unlink(const char* path) { return refuses_change(AT_FDCWD, path) ? -1 : NEXT(unlink)(path); }
int unlinkat(int folder, const char* path, int flags) {
  return refuses_change(folder, path) ? -1 : NEXT(unlinkat)(folder, path, flags);
}

// Without the C library: it is this function.
int clock_gettime(clockid_t clock, struct timespec* time) {
  const long failed = syscall(SYS_clock_gettime, clock, time);
  if (failed == 0 && clock == CLOCK_REALTIME && is_on("clock_back")) time->tv_sec -= 3600;
  return (int)failed;
}
int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != NULL) *result = now.tv_sec;
  return now.tv_sec;
}
