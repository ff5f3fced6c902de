/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of an image that boots: makes a Linux of the kernel and the tree, finds the disk, runs Bascule and
 * powers off. No shell, no network but the loopback. It reads what tools/packaging wrote: /boot/modules, kernel modules
 * in the order in which they are loaded, /boot/disk, the folder where the disk is mounted, and /boot/command, "run" or
 * "serve". Linked statically. */
#define _GNU_SOURCE /* finit_module, reboot */
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  LINE = 4096,
  DISK_WAIT_SECONDS = 30, /* USB disks appear late */
  SUPERBLOCK = 1024,      /* of ext4: Documentation/filesystems/ext4 */
  MAGIC_AT = 0x38,
  LABEL_AT = 0x78,
  LABEL_BYTES = 16
};
static const char LABEL[] = "BASCULE";

static int log_file = -1; /* on the disk */

static void write_all(int file, const char* text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(file, text, bytes);
    if (written <= 0) return; /* a console that is gone, a full disk: the run goes on */
    text += written;
    bytes -= (size_t)written;
  }
}

/* To the console, and to the log as soon as there is a disk. */
static void tell(const char* text, size_t bytes) {
  write_all(STDOUT_FILENO, text, bytes);
  if (log_file >= 0) write_all(log_file, text, bytes);
}

static void say(const char* what, const char* detail, const char* reason) {
  char line[LINE];
  const int bytes =
      snprintf(line, sizeof line, "bascule: init: %s%s%s%s\n", what, detail, reason[0] != '\0' ? ": " : "", reason);
  if (bytes > 0) tell(line, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1);
}

static _Noreturn void power_off(const char* disk) {
  if (log_file >= 0) fsync(log_file);
  sync();
  if (disk != NULL) {
    close(log_file);
    log_file = -1;
    if (umount(disk) != 0) say("cannot unmount ", disk, strerror(errno));
  }
  reboot(RB_POWER_OFF);
  for (;;) pause(); /* the kernel panics when its first process ends */
}

static _Noreturn void give_up(const char* what, const char* detail, const char* reason) {
  say(what, detail, reason);
  power_off(NULL);
}

static void mount_or_give_up(const char* what, const char* type, const char* where, unsigned long flags) {
  if (mount(what, where, type, flags, NULL) != 0 && errno != EBUSY) give_up("cannot mount ", where, strerror(errno));
}

/* Reads a small file's text; the end of line at its end is cut off. */
static int read_text(const char* path, char* text, size_t bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : read(file, text, bytes - 1);
  if (file >= 0) close(file);
  text[length > 0 ? length : 0] = '\0';
  if (length > 0 && text[length - 1] == '\n') text[length - 1] = '\0';
  return length > 0;
}

/* A module that this machine has no device for may refuse: the disk decides whether enough were loaded. */
static void load_modules(void) {
  FILE* const list = fopen("/boot/modules", "re");
  char path[LINE];
  while (list != NULL && fgets(path, sizeof path, list) != NULL) {
    path[strcspn(path, "\n")] = '\0';
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST && errno != ENODEV))
      say("cannot load ", path, strerror(errno));
    if (file >= 0) close(file);
  }
  if (list != NULL) fclose(list);
}

/* Ranks of one machine speak through the loopback interface, and a service may listen there. */
static void bring_up_loopback(void) {
  const int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {.ifr_name = "lo"};
  request.ifr_flags = IFF_UP;
  if (socket_ < 0 || ioctl(socket_, SIOCSIFFLAGS, &request) != 0) say("cannot bring up ", "lo", strerror(errno));
  if (socket_ >= 0) close(socket_);
}

/* Whether a block device holds an ext4 file system with our label. */
static int is_our_disk(const char* device) {
  unsigned char block[LABEL_AT + LABEL_BYTES];
  const int file = open(device, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : pread(file, block, sizeof block, SUPERBLOCK);
  if (file >= 0) close(file);
  return length == (ssize_t)sizeof block && block[MAGIC_AT] == 0x53 && block[MAGIC_AT + 1] == 0xef &&
         strncmp((const char*)block + LABEL_AT, LABEL, LABEL_BYTES) == 0;
}

static int find_disk(char* device, size_t bytes) {
  DIR* const devices = opendir("/sys/class/block");
  int found = 0;
  for (struct dirent* entry = NULL; !found && devices != NULL && (entry = readdir(devices)) != NULL;) {
    snprintf(device, bytes, "/dev/%s", entry->d_name);
    found = entry->d_name[0] != '.' && is_our_disk(device);
  }
  if (devices != NULL) closedir(devices);
  return found;
}

static void mount_disk(const char* where) {
  char device[LINE];
  const struct timespec pause_ = {0, 100000000};
  for (int look = 0; !find_disk(device, sizeof device); ++look) {
    if (look == DISK_WAIT_SECONDS * 10)
      give_up("no disk has a file system ext4 labelled ", LABEL, "make one with mkfs.ext4 -L BASCULE");
    nanosleep(&pause_, NULL);
  }
  mount_or_give_up(device, "ext4", where, MS_NODEV | MS_NOSUID | MS_NOATIME);
  const int folder = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  log_file = openat(folder, "bascule.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  close(folder);
  say("disk ", device, where);
}

/* Runs a program; its output goes to console and log. Returns its exit code, 128 and the signal that ended it. */
static int run(char* const arguments[]) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) give_up("cannot start ", arguments[0], strerror(errno));
  say("starting bascule ", arguments[1], "");
  const pid_t child = fork();
  if (child == 0) {
    static char* const environment[] = {"PATH=/bin", "HOME=/", "TMPDIR=/tmp", NULL};
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execve(arguments[0], arguments, environment);
    _exit(127);
  }
  close(ends[1]);
  char text[LINE];
  for (ssize_t bytes = 0; (bytes = read(ends[0], text, sizeof text)) > 0 || (bytes < 0 && errno == EINTR);) {
    if (bytes > 0) tell(text, (size_t)bytes);
  }
  close(ends[0]);
  int status = 0, ended = 0;
  for (pid_t one = 0; (one = wait(&ended)) > 0 && one != child;) continue; /* others are orphans that became ours */
  status = ended;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  char number[16];
  snprintf(number, sizeof number, "%d", code);
  say("exit code ", number, "");
  return code;
}

/* The word behind "bascule.mode=" on the kernel's command line; "run" where there is none. */
static const char* mode(char* command_line) {
  char* const found = strstr(command_line, "bascule.mode=");
  if (found == NULL) return "run";
  char* const word = found + strlen("bascule.mode=");
  word[strcspn(word, " ")] = '\0';
  return word;
}

/* By qemu without KVM, which names itself where hypervisors do. */
static int is_emulated(void) {
  unsigned words[4] = {0};
  __cpuid(0x40000000, words[0], words[1], words[2], words[3]);
  return memcmp(words + 1, "TCGTCGTCGTCG", 12) == 0;
}

/* Keeps the first profile of this machine on the disk and judges later ones against it. A verdict never keeps it from
 * the run. */
static void bring_up(const char* disk) {
  static char profile[] = "bringup.json"; /* relative to the disk */
  if (chdir(disk) != 0) give_up("cannot enter ", disk, strerror(errno));
  char* const option = access(profile, F_OK) == 0 ? "--against" : "--save";
  (void)run((char*[]){"/bin/bascule", "bringup", "--quick", option, profile, NULL});
}

int main(void) {
  char disk[LINE], command[LINE], command_line[LINE];
  mount_or_give_up("devtmpfs", "devtmpfs", "/dev", MS_NOSUID);
  mount_or_give_up("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
  mount_or_give_up("sysfs", "sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC);
  for (const char* const* where = (const char* const[]){"/run", "/tmp", NULL}; *where != NULL; ++where)
    mount_or_give_up("tmpfs", "tmpfs", *where, MS_NOSUID | MS_NODEV);
  if (!read_text("/boot/disk", disk, sizeof disk)) give_up("cannot read ", "/boot/disk", strerror(errno));
  if (!read_text("/boot/command", command, sizeof command)) give_up("cannot read ", "/boot/command", strerror(errno));
  load_modules();
  bring_up_loopback();
  mount_disk(disk);
  if (mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
    say("cannot make the root read-only", "", strerror(errno));
  (void)read_text("/proc/cmdline", command_line, sizeof command_line);
  const int is_run = strcmp(mode(command_line), "run") == 0;
  if (is_run && is_emulated())
    say("bringup skipped", "", "figures of an emulated CPU say nothing about the machine");
  else
    bring_up(disk);
  if (is_run) (void)run((char*[]){"/bin/bascule", command, NULL});
  power_off(disk);
}
