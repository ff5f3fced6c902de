// SPDX-License-Identifier: Apache-2.0
#include "src/commands/report_error.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "src/json/json.h"
#include "src/runtime/guard.h"

namespace bascule::test {
namespace {

// A death test reads standard error.
void promise_on_standard_error() {
  dup2(STDERR_FILENO, STDOUT_FILENO);
  promise_document();
}

TEST(LastDocumentDeathTest, OfAFailedCheckSaysWhatFailed) {
  const auto fail = [] {
    promise_on_standard_error();
    seal_memory();
    check_failed("a.cpp", 7, "name == \"x\"");
  };
  EXPECT_EXIT(
      fail(), ::testing::ExitedWithCode(1),
      "\"exit_code\": 1,\n *\"kind\": \"bug\",\n *\"what\": \"bug: a.cpp:7: check failed: name == \\\\\"x\\\\\"");
}

TEST(LastDocumentDeathTest, OfASignalIsThereAndTheSignalEndsTheProgram) {
  for (const int number : {SIGSEGV, SIGABRT, SIGTERM}) {
    const auto end = [&] {
      promise_on_standard_error();
      raise(number);
    };
    const std::string kind = number == SIGTERM ? "stopped" : "bug";
    EXPECT_EXIT(end(), ::testing::KilledBySignal(number),
                "\"exit_code\": " + std::to_string(128 + number) + ", \"kind\": \"" + kind + "\"");
  }
}

TEST(LastDocumentDeathTest, ASignalThatTheCallerIgnoresEndsNothing) {
  const auto hang_up = [] {
    std::signal(SIGHUP, SIG_IGN);
    promise_on_standard_error();
    raise(SIGHUP);
    std::exit(0);
  };
  EXPECT_EXIT(hang_up(), ::testing::ExitedWithCode(0), "^$");
}

TEST(LastDocumentDeathTest, OfARankIsLeftToTheOthers) {
  const auto end = [] {
    promise_on_standard_error();
    speak_as_rank(0);
    if (prints_errors()) raise(SIGTERM);
  };
  EXPECT_EXIT(end(), ::testing::KilledBySignal(SIGTERM), "^$");
  EXPECT_EXIT((speak_as_rank(1), std::exit(prints_errors() ? 1 : 0)), ::testing::ExitedWithCode(0), "");
}

TEST(LastDocument, NamesTheKindOfAnExitCode) {
  for (const auto& [code, kind] : {std::pair{3, "data"}, {5, "rank"}, {143, "stopped"}, {17, "bug"}}) {
    const Json document = parse_json(document_of_exit_code(code, "", "a rank failed", "run it again"), "document");
    EXPECT_EQ(document["error"]["kind"].string(), kind) << code;
    EXPECT_EQ(document["error"]["exit_code"].integer(), code);
    EXPECT_EQ(document["error"]["what_to_do"].string() == "run it again", code == 143);
  }
}

}  // namespace
}  // namespace bascule::test
