// SPDX-License-Identifier: Apache-2.0
// Preloaded into the ranks of a run: the one that KILLED_RANK names is killed on its way out, after all of its work.
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void end(void) {
  const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
  const char* const killed = getenv("KILLED_RANK");
  if (rank != NULL && killed != NULL && strcmp(rank, killed) == 0) kill(getpid(), SIGKILL);
}
