/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a machine with two memory nodes that test_two_nodes.py boots. Behind "two_nodes.does=" on the
 * kernel's command line each letter is one thing to do:
 *   1, 2  start so many ranks of /N.toml, wait until they have done two updates, print where the memory of each rank
 *         lies and which cores its threads may use, and end them
 *   p, b  print the plan of /1.toml; measure memory with bringup
 * Linked statically. */
#define _GNU_SOURCE /* pipe2 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 8192, MOST_RANKS = 2 };
static const char TRAINS[] = "train: step ";

/* Lines of a file, each behind `prefix`; those that contain `word` alone. */
static void print_lines(const char* prefix, const char* path, const char* word) {
  static char line[LINE];
  FILE* const file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strstr(line, word) != NULL) printf("%s %s", prefix, line);
  }
  if (file != NULL) fclose(file);
}

static void print_process(int ranks, int rank, pid_t process) {
  char prefix[64], path[320];
  snprintf(prefix, sizeof prefix, "memory %d %d", ranks, rank);
  snprintf(path, sizeof path, "/proc/%d/numa_maps", process);
  print_lines(prefix, path, "");
  snprintf(prefix, sizeof prefix, "thread %d %d", ranks, rank);
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR* const threads = opendir(path);
  for (struct dirent* entry = NULL; threads != NULL && (entry = readdir(threads)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", process, entry->d_name);
    print_lines(prefix, path, "Cpus_allowed_list:");
  }
  if (threads != NULL) closedir(threads);
}

/* The program with these arguments; what it says goes to `output`. */
static _Noreturn void become_bascule(int output, char* const arguments[]) {
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv("/bin/bascule", arguments);
  _exit(127);
}

/* A rank, as Slurm starts it. */
static pid_t start_rank(int ranks, int rank, int output) {
  const pid_t process = fork();
  if (process != 0) return process;
  char number[16], count[16], settings[32];
  snprintf(number, sizeof number, "%d", rank);
  snprintf(count, sizeof count, "%d", ranks);
  snprintf(settings, sizeof settings, "/%d.toml", ranks);
  if (ranks > 1) {
    setenv("SLURM_PROCID", number, 1);
    setenv("SLURM_LOCALID", number, 1);
    setenv("SLURM_NTASKS", count, 1);
    setenv("SLURM_JOB_ID", "1", 1);
    setenv("SLURM_STEP_ID", "0", 1);
  }
  become_bascule(output, (char*[]){"bascule", "run", settings, NULL});
}

static void train_and_look(int ranks) {
  pid_t processes[MOST_RANKS];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  for (int rank = 0; rank < ranks; ++rank) processes[rank] = start_rank(ranks, rank, ends[1]);
  close(ends[1]);
  FILE* const said = fdopen(ends[0], "re");
  static char line[LINE];
  while (said != NULL && fgets(line, sizeof line, said) != NULL) {
    printf("said %s", line);
    const char* const step = strstr(line, TRAINS);
    if (step == NULL || strtol(step + sizeof TRAINS - 1, NULL, 10) < 2) continue;
    for (int rank = 0; rank < ranks; ++rank) print_process(ranks, rank, processes[rank]);
    break;
  }
  for (int rank = 0; rank < ranks; ++rank) kill(processes[rank], SIGKILL);
  while (wait(NULL) > 0) continue;
  fclose(said);
}

static void run(char* const arguments[]) {
  const pid_t process = fork();
  if (process == 0) become_bascule(STDOUT_FILENO, arguments);
  while (wait(NULL) > 0) continue;
}

static void do_one(char what) {
  if (what == '1' || what == '2') train_and_look(what - '0');
  if (what == 'p') run((char*[]){"bascule", "plan", "/1.toml", NULL});
  if (what == 'b') run((char*[]){"bascule", "bringup", "--quick", "--only", "memory", "--folder", "/tmp", NULL});
}

int main(void) {
  static char command_line[LINE];
  mkdir("/proc", 0755);
  mkdir("/sys", 0755);
  mkdir("/tmp", 0755);
  mount("proc", "/proc", "proc", 0, NULL);
  mount("sysfs", "/sys", "sysfs", 0, NULL);
  mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
  mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3));
  setvbuf(stdout, NULL, _IOLBF, 0);
  const int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = read(file, command_line, sizeof command_line - 1);
  close(file);
  const char* does = bytes > 0 ? strstr(command_line, "two_nodes.does=") : NULL;
  for (does = does != NULL ? strchr(does, '=') + 1 : ""; *does > ' '; ++does) do_one(*does);
  printf("done\n");
  fflush(stdout);
  reboot(LINUX_REBOOT_CMD_POWER_OFF);
  return 0;
}
