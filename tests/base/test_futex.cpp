// SPDX-License-Identifier: Apache-2.0
#include "src/base/futex.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "src/base/clock.h"

namespace bascule {
namespace {

using Word = std::atomic<std::uint32_t>;

TEST(Futex, AChangeThatWasMadeBeforeIsNotSleptOver) {
  const Word word{1};
  for (const FutexReach reach : {FutexReach::kProcess, FutexReach::kSharedMemory}) futex_wait(word, 0, reach);
}

TEST(Futex, AThreadIsWoken) {
  Word word{0};
  std::thread sleeper([&] {
    while (word.load() == 0) futex_wait(word, 0, FutexReach::kProcess);
  });
  word.store(1);
  futex_wake_all(word, FutexReach::kProcess);
  sleeper.join();
}

// Until the process sleeps; a change before that would need no waking.
void wait_for_sleep(pid_t process) {
  const std::string file = "/proc/" + std::to_string(process) + "/stat";
  for (int asleep = 0; asleep < 5; ::usleep(1000)) {
    std::string text;
    std::getline(std::ifstream(file), text);
    asleep = text.find(") S ") != std::string::npos ? asleep + 1 : 0;
  }
}

TEST(Futex, AProcessThatSharesTheMemoryIsWoken) {
  void* const memory = ::mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Word* const word = new (memory) Word(0);
  const pid_t child = ::fork();
  if (child == 0) {
    while (word->load() == 0) futex_wait(*word, 0, FutexReach::kSharedMemory);
    ::_exit(0);
  }
  wait_for_sleep(child);
  word->store(1);
  futex_wake_all(*word, FutexReach::kSharedMemory);
  int status = -1;
  pid_t ended = 0;
  for (int i = 0; i < 3000 && ended == 0; ++i) {
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended == 0) ::usleep(10'000);
  }
  EXPECT_EQ(ended, child) << "not woken within 30 s";
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(status, 0);
  ::munmap(memory, sizeof(Word));
}

TEST(Futex, ASleepEndsAtItsTimeout) {
  const Word word{0};
  const std::int64_t began = monotonic_ns();
  while (monotonic_ns() - began < 2'000'000) futex_wait(word, 0, FutexReach::kProcess, 1'000'000);
}

}  // namespace
}  // namespace bascule
