/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a machine that image_check boots: asks the service in it, which nothing outside reaches, and
 * prints the body of the answer; meanwhile it is the image's own first process. Linked statically. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char REQUEST[] =
    "POST /predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
    "Content-Length: 40\r\n\r\n{\"inputs\": \"cat face with tears of joy\"}";

static void ask(void) {
  static char answer[65536];
  const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/runs/serve.sock"};
  for (;; sleep(1)) { /* until there is a service, and again where one of an earlier start left its socket */
    const int service = socket(AF_UNIX, SOCK_STREAM, 0);
    size_t bytes = 0;
    if (connect(service, (const struct sockaddr*)&address, sizeof address) == 0 &&
        write(service, REQUEST, sizeof REQUEST - 1) == sizeof REQUEST - 1) {
      for (ssize_t part = 0; (part = read(service, answer + bytes, sizeof answer - bytes)) > 0;) bytes += (size_t)part;
    }
    close(service);
    const char* const body = memmem(answer, bytes, "\r\n\r\n", 4);
    if (body == NULL) continue;
    printf("answer: %.3s %.*s\n", answer + 9, (int)(answer + bytes - body - 4), body + 4);
    return;
  }
}

int main(int count, char** arguments) {
  (void)count;
  if (fork() != 0) {
    execv("/boot/init", arguments);
    return 1;
  }
  ask();
  return 0;
}
