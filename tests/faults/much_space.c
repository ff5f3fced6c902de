// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: every file system says that it has plenty of room, as one does that others fill later.
#define _GNU_SOURCE
#include <string.h>
#include <sys/statvfs.h>

int statvfs(const char* path, struct statvfs* facts) {
  (void)path;
  memset(facts, 0, sizeof *facts);
  facts->f_bsize = facts->f_frsize = 4096;
  facts->f_blocks = facts->f_bfree = facts->f_bavail = 1UL << 40;
  return 0;
}
