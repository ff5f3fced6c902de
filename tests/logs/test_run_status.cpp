// SPDX-License-Identifier: Apache-2.0
#include "src/logs/progress.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "src/base/clock.h"
#include "src/base/descriptor.h"
#include "src/json/json.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

// A run of 7 updates in a folder of its own; the clock is the test's.
struct SevenUpdates {
  test::TemporaryFolder folder;
  RunStatus status;

  explicit SevenUpdates(double seconds) {
    status.open(folder.path(), seconds, NotifySocket{});
    status.begin("train", 0, 7, 100.0);
  }
  void update(std::int64_t number, double now_seconds) {
    const double n = static_cast<double>(number);
    status.step({number, n / 3.5, 8.0 - n, 50.0}, now_seconds);
  }
  Json read() const { return read_json_file(folder.path() + "/" + kStatusFile); }
  std::string metrics() const {
    std::ifstream file(folder.path() + "/" + kMetricsFile);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST(RunStatus, SaysWhenTheProcessBegan) {
  const double before = unix_seconds();
  SevenUpdates run(1.0);
  run.update(1, 102.0);
  EXPECT_GE(run.read()["started"].number(), before - 1e-3);
  EXPECT_LE(run.read()["started"].number(), unix_seconds() + 1e-3);
}

TEST(RunStatus, AnEvaluationCountsItsBatchesAndLeavesTheFiguresOfTraining) {
  SevenUpdates run(1.0);
  for (int number = 1; number <= 4; ++number) run.update(number, 100.0 + 2.0 * number);
  run.status.begin("validation", 0, 5, 110.0);
  run.status.step({2, -1.0, std::nan(""), 0.0}, 114.0);
  const Json during = run.read();
  EXPECT_EQ(during["state"], "running");
  EXPECT_EQ(during["phase"], "validation");
  EXPECT_EQ(during["done"], 2);
  EXPECT_EQ(during["total"], 5);
  EXPECT_EQ(during["seconds_left"], 6.0);  // two of five batches took 4 s
  EXPECT_EQ(during["update"], 4);
  EXPECT_EQ(during["updates"], 7);
  EXPECT_EQ(during["epoch"], 4.0 / 3.5);
  EXPECT_EQ(during["loss"], 4.0);
  EXPECT_EQ(during["samples_per_second"], 50.0);

  run.status.begin("train", 4, 7, 120.0);
  run.status.end("stopped");
  EXPECT_EQ(run.read()["phase"], "train");
  EXPECT_EQ(run.read()["update"], 4);

  run.status.begin("train", 4, 7, 120.0);
  run.update(5, 124.0);
  const Json after = run.read();
  EXPECT_EQ(after["phase"], "train");
  EXPECT_EQ(after["done"], 5);
  EXPECT_EQ(after["update"], 5);
  EXPECT_EQ(after["total"], 7);
  EXPECT_EQ(after["seconds_left"], 8.0);  // one update of this process took 4 s; the four before it do not count
}

TEST(RunStatus, TheEndIsWrittenWithTheLastUpdateHoweverSeldomTheRestIs) {
  for (const char* const state : {"finished", "stopped"}) {
    SevenUpdates run(3600.0);
    for (int number = 1; number <= 7; ++number) run.update(number, 100.0 + number);
    EXPECT_EQ(run.read()["update"], 1) << "the next write is due in an hour";
    EXPECT_NE(run.metrics().find("\nbascule_running 1\n"), std::string::npos) << run.metrics();
    run.status.end(state);
    const Json end = run.read();
    EXPECT_EQ(end["state"], state);
    EXPECT_EQ(end["update"], 7);
    EXPECT_EQ(end["updates"], 7);
    EXPECT_EQ(end["done"], 7);
    EXPECT_EQ(end["loss"], 1.0);
    EXPECT_EQ(end["seconds_left"], 0.0);
    EXPECT_NE(run.metrics().find("\nbascule_running 0\n"), std::string::npos) << run.metrics();
  }
}

// The socket that a service's messages go to.
class Listener {
 public:
  explicit Listener(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const void* const generic = &address;
    EXPECT_EQ(::bind(socket_.number(), static_cast<const sockaddr*>(generic), sizeof address), 0) << path;
  }
  // The next message; empty where none is waiting.
  std::string next() const {
    char text[512];
    const ssize_t bytes = ::recv(socket_.number(), text, sizeof text, 0);
    return bytes < 0 ? "" : std::string(text, static_cast<std::size_t>(bytes));
  }

 private:
  Descriptor socket_;
};

// The manager listens in the same folder.
void open_as_service(const std::string& folder, RunStatus* status) {
  ::setenv("NOTIFY_SOCKET", (folder + "/notify").c_str(), 1);
  status->open(folder, 1.0, NotifySocket::from_environment());
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(RunStatus, TheServiceManagerHearsOnceThatTheRunIsReady) {
  const test::TemporaryFolder folder;
  const Listener manager(folder.path() + "/notify");
  RunStatus status;
  open_as_service(folder.path(), &status);
  status.begin("train", 0, 7, 100.0);
  for (int number = 1; number <= 3; ++number) status.step({number, 0.5, 8.0, 50.0}, 100.0 + 2.0 * number);
  EXPECT_EQ(manager.next().find("READY=1\nSTATUS=train: step 1 of 7"), 0u);
  EXPECT_EQ(manager.next().find("STATUS=train: step 2 of 7"), 0u);
  EXPECT_EQ(manager.next().find("STATUS=train: step 3 of 7"), 0u);
}

// A run that was killed while it finished has no step left.
TEST(RunStatus, ARunWithoutAStepIsReadyAtItsEndUnlessItFailed) {
  for (const char* const state : {"finished", "stopped", "failed"}) {
    const test::TemporaryFolder folder;
    const Listener manager(folder.path() + "/notify");
    RunStatus status;
    open_as_service(folder.path(), &status);
    status.end(state);
    if (std::string(state) != "failed") {
      EXPECT_EQ(manager.next(), "READY=1\n") << state;
    }
    const bool stops = std::string(state) != "finished";
    EXPECT_EQ(manager.next().find(stops ? "STOPPING=1\n" : "STATUS=the run has finished\n"), 0u) << state;
    EXPECT_EQ(read_json_file(folder.path() + "/" + kStatusFile)["state"], state);
  }
}

// A batch of pictures takes minutes: each call of the UNet counts.
TEST(RunStatus, PicturesAreToldByCall) {
  const test::TemporaryFolder folder;
  const Listener manager(folder.path() + "/notify");
  RunStatus status;
  open_as_service(folder.path(), &status);
  status.begin("draw", 4, 20, 100.0);
  ProgressStep step;
  step.done = 4;
  step.pictures_of_next = 8;
  step.call = 13;
  step.calls = 52;
  status.step(step, 130.0);
  const Json during = read_json_file(folder.path() + "/" + kStatusFile);
  EXPECT_EQ(during["done"], 4);
  EXPECT_EQ(during["call"], 13);
  EXPECT_EQ(during["calls"], 52);
  EXPECT_EQ(during["seconds_left"], 210.0);  // a quarter of eight pictures in 30 s; sixteen less these two are left
  EXPECT_EQ(manager.next().find("READY=1\nSTATUS=draw: picture 4 of 20, call 13 of 52, "), 0u);
}

TEST(RunStatus, MetricsOfAnEvaluationAreThoseOfTraining) {
  SevenUpdates run(1.0);
  for (int number = 1; number <= 4; ++number) run.update(number, 100.0 + 2.0 * number);
  StepRecord record;
  record.grad_norm = 1.5;
  record.learning_rate = 0.25;
  record.samples_per_second = 40.0;
  run.status.record(record);
  run.status.begin("validation", 0, 5, 110.0);
  run.status.step({2, -1.0, std::nan(""), 0.0}, 114.0);
  const std::string metrics = run.metrics();
  for (const char* const line :
       {"bascule_updates_total 4", "bascule_planned_updates 7", "bascule_phase_done 2", "bascule_phase_total 5",
        "bascule_loss 4", "bascule_gradient_norm 1.5", "bascule_learning_rate 0.25", "bascule_samples_per_second 40",
        "bascule_remaining_seconds 6", "bascule_running 1"})
    EXPECT_NE(metrics.find(std::string("\n") + line + "\n"), std::string::npos) << line << " in\n" << metrics;
}

}  // namespace
}  // namespace bascule
