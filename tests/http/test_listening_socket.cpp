// SPDX-License-Identifier: Apache-2.0
#include "src/http/listening_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "tests/http/served.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::Client;
using test::http_get;
using test::http_post;
using test::Served;
using test::small_settings;

std::string refusal(const HttpSettings& settings) {
  test::EchoHandler handler;
  return test::error_of([&] { HttpServer server(settings, handler); }, ErrorKind::kSettings);
}

std::string refusal_of(const std::string& listen) {
  HttpSettings settings = small_settings();
  settings.listen = listen;
  return refusal(settings);
}

TEST(ListeningSocket, RefusesAnAddressThatIsNone) {
  const std::string long_path = "unix:/" + std::string(120, 'a');
  for (const char* listen : {"3000", "localhost", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                             "127.0.0.1:-1", "name:3000", "::1:3000", "[::1]", "[]:1", "[x]:1", "1.2.3.4.5:1"})
    EXPECT_NE(refusal_of(listen).find("no address that can be listened on"), std::string::npos) << listen;
  EXPECT_NE(refusal_of("unix:").find("1 to 107 bytes"), std::string::npos);
  EXPECT_NE(refusal_of(long_path).find("1 to 107 bytes"), std::string::npos);
  EXPECT_NE(refusal_of("unix:/no/such/folder/s").find("No such file"), std::string::npos);
}

TEST(ListeningSocket, IsTriedAndLeavesNothing) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/s";
  try_listening("unix:" + path, false);
  try_listening("unix:" + folder.path() + "/none/s", false);
  try_listening("127.0.0.1:0", false);
  EXPECT_THROW(try_listening("0.0.0.0:0", false), Error);
  try_listening("0.0.0.0:0", true);
  struct stat info = {};
  EXPECT_NE(::stat(path.c_str(), &info), 0);
  std::ofstream(path) << "a";
  EXPECT_THROW(try_listening("unix:" + path, false), Error);
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
}

TEST(ListeningSocket, IsNotNeededForAConnectionThatIsGiven) {
  HttpSettings settings = small_settings();
  settings.listen = "";
  settings.max_connections = 1;
  Served served(settings);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  Client c{Descriptor(ends[0])};
  served.server.connect(Descriptor(ends[1]));
  c.send(http_post("/echo", "here"));
  ASSERT_TRUE(served.pump({&c}, [&] { return c.has("here"); }));
  EXPECT_EQ(c.status(), 200);
  served.server.drain();
  EXPECT_TRUE(served.pump({&c}, [&] { return c.is_closed && served.server.is_drained(); }));
}

TEST(ListeningSocket, OtherMachinesNeedAKeyOrLeave) {
  HttpSettings settings = small_settings();
  const bool has_version_6 = std::filesystem::exists("/proc/net/if_inet6");
  settings.listen = has_version_6 ? "[::]:0" : "0.0.0.0:0";
  EXPECT_NE(refusal(settings).find("set serve.api_key_file"), std::string::npos);
  settings.listen = "0.0.0.0:0";
  EXPECT_EQ(refusal(settings).find("serve.listen = \"0.0.0.0:"), 0u);
  EXPECT_NE(refusal(settings).find("set serve.api_key_file"), std::string::npos);
  settings.allow_remote_without_key = true;
  EXPECT_EQ(refusal(settings), "no error");
  settings.allow_remote_without_key = false;
  settings.api_key = "key";
  EXPECT_EQ(refusal(settings), "no error");
  settings.api_key = "";
  for (const char* local : {"127.0.0.1:0", "localhost:0", "127.8.8.8:0", has_version_6 ? "[::1]:0" : "127.1.1.1:0"}) {
    settings.listen = local;
    EXPECT_EQ(refusal(settings), "no error") << local;
  }
}

TEST(ListeningSocket, APortThatIsTakenIsNamed) {
  Served served;
  EXPECT_NE(refusal_of(served.server.address()).find("Address already in use; stop the program"), std::string::npos);
}

TEST(ListeningSocket, AUnixSocketComesAndGoes) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/s";
  HttpSettings settings = small_settings();
  settings.listen = "unix:" + path;
  {
    Served served(settings);
    EXPECT_EQ(served.exchange(http_post("/echo", "abc")).status(), 200);
    EXPECT_NE(refusal(settings).find("another server listens there"), std::string::npos);
  }
  struct stat info = {};
  EXPECT_NE(::stat(path.c_str(), &info), 0);
  // One that a killed server left, and a file that is none.
  {
    const Descriptor left(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    void* const any = &address;
    ASSERT_EQ(::bind(left.number(), static_cast<sockaddr*>(any), sizeof address), 0);
  }
  { EXPECT_EQ(Served(settings).exchange(http_get("/health")).status(), 200); }
  std::ofstream(path) << "mine";
  EXPECT_NE(refusal(settings).find("a file that is no socket lies there"), std::string::npos);
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
}

// In a process of its own: the descriptor is number 3.
template <typename Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(static_cast<unsigned>(test::slowly(20000) / 1000));
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

void hand_over(const Descriptor& socket, const char* count) {
  ::dup2(socket.number(), 3);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", count, 1);
}

Descriptor listening() {
  Descriptor socket(::fcntl(::socket(AF_INET, SOCK_STREAM, 0), F_DUPFD, 10));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  void* const any = &address;
  EXPECT_EQ(::bind(socket.number(), static_cast<sockaddr*>(any), sizeof address), 0);
  EXPECT_EQ(::listen(socket.number(), 16), 0);
  return socket;
}

TEST(ListeningSocket, AnInheritedOneWins) {
  EXPECT_EQ(in_child([] {
              const Descriptor socket = listening();
              hand_over(socket, "1");
              HttpSettings settings = small_settings();
              settings.listen = "192.0.2.1:1";
              Served served(settings);
              return served.exchange(http_get("/health")).status() == 200 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([] {
              const Descriptor no_listener(::fcntl(0, F_DUPFD, 10));
              hand_over(no_listener, "1");
              return refusal(small_settings()).find("LISTEN_FDS=1: is not one socket that listens") == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([] {
              hand_over(listening(), "2");
              return refusal(small_settings()).find("LISTEN_FDS=2: is not one socket that listens") == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([] {
              hand_over(listening(), "1");
              ::setenv("LISTEN_PID", "1", 1);
              Served served;
              return served.exchange(http_get("/health")).status() == 200 ? 0 : 1;
            }),
            0);
}

// The server that is replaced, in a process of its own: drains when the pipe is closed.
int serve_until_closed(const Descriptor& socket, int pipe_end) {
  hand_over(socket, "1");
  ::fcntl(pipe_end, F_SETFL, O_NONBLOCK);
  Served served;
  char byte;
  while (!served.server.is_drained()) {
    served.poll();
    if (::read(pipe_end, &byte, 1) == 0) served.server.drain();
  }
  return served.handler.asked.empty() ? 5 : 0;
}

// Asks twice on a connection, of either server or of the other one. 0, or what was wrong.
int ask_twice(Served* served, bool either) {
  Client c(served->server.address());
  const auto answers = [&] { return c.count("HTTP/1.1 200"); };
  std::size_t asked = 0;
  for (const std::int64_t end = monotonic_ms() + test::slowly(10000); answers() < 2 && !c.is_closed;) {
    if (asked == answers()) asked += c.send(http_post("/echo", "abc")) > 0 ? 1 : 0;
    if (either)
      served->poll();
    else
      ::usleep(200);
    c.receive();
    if (answers() == asked && c.has("Connection: close")) break;  // its client knows that it has to connect again
    if (monotonic_ms() > end) return 1;
  }
  return answers() == asked ? 0 : 2;
}

// Two servers on one inherited socket, of which one drains while clients connect, ask and go: no request is lost.
TEST(ListeningSocket, AReplacementLosesNoRequest) {
  EXPECT_EQ(in_child([] {
              const Descriptor socket = listening();
              int ends[2] = {};
              if (::pipe(ends) != 0) return 3;
              const pid_t old_server = ::fork();
              if (old_server == 0) {
                ::close(ends[1]);
                ::_exit(serve_until_closed(socket, ends[0]));
              }
              hand_over(socket, "1");
              Served new_server;
              int status = 0;
              for (int i = 0; i < 400 || ::waitpid(old_server, &status, WNOHANG) == 0; ++i) {
                if (i == 200) ::close(ends[1]);
                if (const int wrong = ask_twice(&new_server, i % 2 == 0 || i >= 200); wrong != 0) return wrong;
              }
              return status == 0 && new_server.handler.asked.size() > 200 ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace bascule
