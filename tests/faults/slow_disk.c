// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: its checkpoints lie on a disk of SLOW_DISK_KIB_PER_SECOND. Writing only fills memory, as it
// does under Linux; who waits for the disk (fsync, sync_file_range) waits as long as the bytes need. With
// SLOW_DISK_ERROR, an errno, the first wait fails, and the sync that follows knows nothing of it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kFiles = 1024 };
static off_t written[kFiles], on_disk[kFiles];

static int is_slow(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0 || file >= kFiles) return 0;
  path[length] = '\0';
  return strstr(path, "checkpoint-") != NULL;
}

static void wait_for_disk(int file, off_t until) {
  if (until <= on_disk[file]) return;
  const char* const rate = getenv("SLOW_DISK_KIB_PER_SECOND");
  const double seconds = (double)(until - on_disk[file]) / 1024.0 / (rate != NULL ? atof(rate) : 1e6);
  const struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&pause, NULL);
  on_disk[file] = until;
}

ssize_t write(int file, const void* data, size_t bytes) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) next = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  const ssize_t count = next(file, data, bytes);
  if (count > 0 && is_slow(file)) written[file] += count;
  return count;
}

int sync_file_range(int file, off_t offset, off_t bytes, unsigned flags) {
  if (!is_slow(file) || (flags & SYNC_FILE_RANGE_WAIT_AFTER) == 0) return 0;
  wait_for_disk(file, offset + bytes);
  const char* const error = getenv("SLOW_DISK_ERROR");
  if (error == NULL) return 0;
  errno = atoi(error);
  return -1;
}

int fsync(int file) {
  if (is_slow(file)) {
    wait_for_disk(file, written[file]);
    written[file] = on_disk[file] = 0;
  }
  return 0;
}
