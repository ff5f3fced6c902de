// SPDX-License-Identifier: Apache-2.0
// Preloaded into `bascule run` with ranks: the process that becomes mpirun waits for SLOW_START_MS first, as it does where
// cores are busy.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int setpgid(pid_t process, pid_t group) {
  static int (*next)(pid_t, pid_t);
  if (next == NULL) next = (int (*)(pid_t, pid_t))dlsym(RTLD_NEXT, "setpgid");
  const char* const text = getenv("SLOW_START_MS");
  const long wait_ms = text != NULL ? atol(text) : 0;
  struct timespec left = {wait_ms / 1000, wait_ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
  return next(process, group);
}
