// SPDX-License-Identifier: Apache-2.0
#include "src/commands/report_error.h"

#include <gtest/gtest.h>

#include <sys/auxv.h>

#include <csignal>

namespace bascule::test {
namespace {

// A product of oneDNN's may hold the stack pointer in the heap when a signal comes.
TEST(StopSignal, HandlersHaveAStackOfTheirOwnWhateverTheCpusRegistersTake) {
  catch_stop_signals(false);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    if (action.sa_handler == SIG_IGN) continue;  // by whoever started the tests
    EXPECT_NE(action.sa_flags & static_cast<int>(SA_ONSTACK), 0) << number;
  }
  stack_t stack = {};
  ASSERT_EQ(sigaltstack(nullptr, &stack), 0);
  EXPECT_EQ(stack.ss_flags, 0);
  EXPECT_GE(stack.ss_size, getauxval(AT_MINSIGSTKSZ) + 16 * 1024);
}

TEST(StopSignal, OneThatTheCallerIgnoresStaysIgnored) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {}, action = {}, ignore = {};
    ignore.sa_handler = SIG_IGN;
    ASSERT_EQ(sigaction(number, &ignore, &before), 0);
    catch_stop_signals(false);
    ASSERT_EQ(sigaction(number, &before, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_IGN) << number;
  }
}

TEST(StopSignal, OneThatTheCallerBlockedIsNoticed) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, nullptr), 0);
  catch_stop_signals(false);
  ASSERT_EQ(std::raise(SIGTERM), 0);
  EXPECT_EQ(*stop_signal(), SIGTERM);
}

TEST(StopSignal, ARunThatHasSavedNothingDoesNotSaySo) {
  EXPECT_EQ(stopped_text(SIGTERM, 7),
            "run: stopped by SIGTERM after update 7, which was saved; run the same command again to resume");
  EXPECT_EQ(stopped_text(SIGINT, 0), "run: stopped by SIGINT; run the same command again to resume");
  EXPECT_EQ(stopped_text(SIGHUP, 0), "run: stopped by SIGHUP; run the same command again to resume");
}

}  // namespace
}  // namespace bascule::test
