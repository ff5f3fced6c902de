// SPDX-License-Identifier: Apache-2.0
// Ranks as forked processes of a test: each runs a function and ends with its value as exit code.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "src/distributed/group.h"
#include "src/distributed/sockets.h"

namespace bascule::test {

// How a process ended: its exit code, or minus the signal.
using Ends = std::vector<int>;

class ForkedRanks {
 public:
  // body(place) -> exit code. The children are killed if this goes before they end.
  template <typename Body>
  ForkedRanks(int count, const Body& body) {
    const std::string run = fresh_name();
    for (int rank = 0; rank < count; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        int code = 99;
        try {
          code = body(RankPlace{rank, count, rank, count, 0, 1, run, ""});
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        }
        _exit(code);
      }
      children_.push_back(child);
    }
  }
  ~ForkedRanks() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    if (!children_.empty()) wait_for_all();
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  pid_t process(int rank) const { return children_[static_cast<std::size_t>(rank)]; }
  Ends wait_for_all() {
    Ends ends;
    for (const pid_t child : std::exchange(children_, {})) {
      int status = 0;
      waitpid(child, &status, 0);
      ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    return ends;
  }

 private:
  std::vector<pid_t> children_;
};

template <typename Body>
Ends run_ranks(int count, const Body& body) {
  return ForkedRanks(count, body).wait_for_all();
}

}  // namespace bascule::test
