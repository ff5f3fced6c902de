// SPDX-License-Identifier: Apache-2.0
#include "src/logs/tensorboard.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

std::string fresh_folder() {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "bascule_" + test->test_suite_name() + "_" + test->name();
  fs::remove_all(folder);
  return folder;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Span<const unsigned char> span_of(const std::string& bytes) {
  return Span<const unsigned char>(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

// The steps of all whole records; fails on anything else.
std::vector<std::int64_t> steps_in(const std::string& bytes) {
  std::vector<std::int64_t> steps;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const EventRecord record = read_event_record(span_of(bytes).subspan(at, bytes.size() - at));
    EXPECT_EQ(record.state, RecordState::kWhole) << "at byte " << at;
    if (record.state != RecordState::kWhole) break;
    if (!record.file_version) steps.push_back(record.step);
    at += record.bytes;
  }
  return steps;
}

// number: that the file must get.
std::string file_with_steps(const std::string& folder, int number, const std::vector<std::int64_t>& steps) {
  TensorBoardWriter events = TensorBoardWriter::open(folder, {1700000000, "host", 77});
  StepRecord record;
  for (const std::int64_t step : steps) {
    record.global_step = step;
    EXPECT_TRUE(events.step(record, 1.5).ok());
  }
  return folder + "/events.out.tfevents.1700000000.host.77." + std::to_string(number);
}

// The value of a scalar in a file of one step: behind its tag stand the field's key, 0x15, and a float.
float scalar_in(const std::string& bytes, const std::string& tag) {
  const std::size_t at = bytes.find(tag);
  if (at == std::string::npos || bytes[at + tag.size()] != 0x15) return -1.0f;
  float value;
  std::memcpy(&value, bytes.data() + at + tag.size() + 1, sizeof value);
  return value;
}

TEST(TensorBoard, TimesAreThoseOfOneStep) {
  const std::string folder = fresh_folder();
  {
    TensorBoardWriter events = TensorBoardWriter::open(folder, {1700000000, "host", 77});
    StepRecord record;
    record.global_step = 8;
    record.steps = 4;
    record.wall_seconds = 6.0;
    record.seconds[static_cast<int>(StepPhase::kForward)] = 3.0;
    record.loader_samples_per_second = std::nan("");  // not measured
    ASSERT_TRUE(events.step(record, 1.5).ok());
  }
  const std::string bytes = bytes_of(folder + "/events.out.tfevents.1700000000.host.77.0");
  EXPECT_EQ(scalar_in(bytes, "time/step"), 1.5f);
  EXPECT_EQ(scalar_in(bytes, "time/forward"), 0.75f);
  EXPECT_EQ(bytes.find("could_deliver"), std::string::npos);
}

TEST(Crc32c, MatchesTheVectorsOfRfc3720) {
  const std::string zeros(32, '\0');
  const std::string ones(32, '\xff');
  EXPECT_EQ(crc32c(zeros.data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones.data(), 32), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
}

// The first record of event files that TensorBoard itself wrote (the wall time is 1700000000.0).
TEST(EventEncoding, TheVersionRecordHasTensorBoardsBytes) {
  const std::string wanted_head("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12);
  const std::string wanted_content(
      "\x09\0\0\0\x40\xfc\x54\xd9\x41\x1a\x0d"
      "brain.Event:2",
      24);
  const std::string record = version_event(1700000000.0);
  ASSERT_EQ(record.size(), 12u + 24u + 4u);
  EXPECT_EQ(record.substr(0, 12), wanted_head);
  EXPECT_EQ(record.substr(12, 24), wanted_content);
}

TEST(EventEncoding, AScalarEventIsTheseBytes) {
  ScalarEvent event;
  ASSERT_TRUE(event.add_scalar("a/b", 1.0));
  const Span<const unsigned char> record = event.finish(300, 0.0);
  const std::string wanted(
      "\x09\0\0\0\0\0\0\0\0"  // wall time 0
      "\x10\xac\x02"          // step 300
      "\x2a\x0c"              // summary, 12 bytes
      "\x0a\x0a\x0a\x03"
      "a/b"                // value, 10 bytes: tag
      "\x15\0\0\x80\x3f",  // simple value 1.0f
      26);
  ASSERT_EQ(record.size(), 12 + wanted.size() + 4);
  EXPECT_EQ(std::string(record.begin() + 12, record.end() - 4), wanted);
  const EventRecord read = read_event_record(record);
  EXPECT_EQ(read.state, RecordState::kWhole);
  EXPECT_EQ(read.step, 300);
  EXPECT_FALSE(read.file_version);
}

TEST(EventEncoding, AFullEventRefusesMoreAndStaysWhole) {
  ScalarEvent event;
  const std::string tag(ScalarEvent::kMaxTagBytes, 't');
  int added = 0;
  while (event.add_scalar(tag.c_str(), 1.0)) ++added;
  EXPECT_GE(added, 10);
  EXPECT_FALSE(event.add_scalar((tag + "t").c_str(), 1.0));
  EXPECT_EQ(read_event_record(event.finish(std::int64_t{1} << 62, 1.0)).state, RecordState::kWhole);
}

TEST(EventEncoding, EveryCutOrFlippedRecordIsFoundTorn) {
  const std::string whole = text_event("args", std::string(300, 'x'), 5, 1.0);
  ASSERT_EQ(read_event_record(span_of(whole)).state, RecordState::kWhole);
  EXPECT_NE(whole.find(std::string(300, 'x')), std::string::npos);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(read_event_record(span_of(whole).first(size)).state, RecordState::kWhole) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_NE(read_event_record(span_of(flipped)).state, RecordState::kWhole) << at;
  }
}

// Two starts of a second, in a container where all have one process number.
TEST(TensorBoardWriter, NeverWritesOverAFile) {
  const std::string folder = fresh_folder();
  const std::string first = file_with_steps(folder, 0, {1});
  const std::string second = file_with_steps(folder, 1, {2, 3});
  EXPECT_EQ(steps_in(bytes_of(first)), std::vector<std::int64_t>{1});
  EXPECT_EQ(steps_in(bytes_of(second)), (std::vector<std::int64_t>{2, 3}));
}

TEST(TensorBoardWriter, WithoutAFileSaysNothingAndSucceeds) {
  TensorBoardWriter off;
  EXPECT_TRUE(off.step(StepRecord{}, 0.0).ok());
  EXPECT_TRUE(off.scalar("a", 1.0, 1, 0.0).ok());
  EXPECT_TRUE(off.sync().ok());
}

TEST(TensorBoardWriter, ReportsADiskThatCannotBeSynced) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor reader(ends[0]), pipe(ends[1]);
  const int number = ::dup(pipe.number());
  ::close(number);
  TensorBoardWriter events = TensorBoardWriter::open(fresh_folder(), {1700000000, "host", 77});
  EXPECT_TRUE(events.sync().ok());
  ASSERT_EQ(::dup2(pipe.number(), number), number);  // the file is a pipe from here on: fdatasync() refuses that
  const Status status = events.sync();
  EXPECT_EQ(status.code, StatusCode::kDiskFailed);
  EXPECT_EQ(status.detail[0], EINVAL);
}

TEST(CutEventsAfter, LeavesExactlyTheStepsUpToTheCheckpoint) {
  const std::string folder = fresh_folder();
  const std::string first = file_with_steps(folder, 0, {10, 20, 30, 40});
  const std::string second = file_with_steps(folder, 1, {50, 60});
  const std::string untouched = bytes_of(first);
  cut_events_after(folder, 50, 50);
  EXPECT_EQ(bytes_of(first), untouched);
  EXPECT_EQ(steps_in(bytes_of(second)), (std::vector<std::int64_t>{50}));
  cut_events_after(folder, 20, 20);
  EXPECT_EQ(steps_in(bytes_of(first)), (std::vector<std::int64_t>{10, 20}));
  EXPECT_FALSE(fs::exists(second));
}

TEST(CutEventsAfter, DropsAnEvaluationThatItsCheckpointDoesNotKnow) {
  const std::string folder = fresh_folder();
  const std::string path = file_with_steps(folder, 0, {10, 20});
  {
    TensorBoardWriter writer = TensorBoardWriter::open(folder, {1, "host", 1});
    EvaluationRecord record;
    record.split = Split::kTest;
    record.global_step = 20;
    EXPECT_TRUE(writer.evaluation(record, {}, 0.0).ok());
    EXPECT_TRUE(writer.step(StepRecord{}, 0.0).ok());
  }
  const std::string second = folder + "/events.out.tfevents.1.host.1.0";
  cut_events_after(folder, 20, 20);
  EXPECT_EQ(steps_in(bytes_of(second)), (std::vector<std::int64_t>{20, 0}));
  cut_events_after(folder, 20, 10);
  EXPECT_EQ(steps_in(bytes_of(second)), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(steps_in(bytes_of(path)), (std::vector<std::int64_t>{10, 20}));
}

TEST(CutEventsAfter, DropsEvaluationsOfAveragedWeightsToo) {
  const std::string folder = fresh_folder();
  {
    TensorBoardWriter writer = TensorBoardWriter::open(folder, {1, "host", 1});
    for (const Split split : {Split::kValidation, Split::kTest}) {
      EvaluationRecord record;
      record.split = split;
      record.averaged = 1;
      record.global_step = 20;
      EXPECT_TRUE(writer.evaluation(record, {}, 0.0).ok());
    }
    EXPECT_TRUE(writer.step(StepRecord{}, 0.0).ok());
  }
  cut_events_after(folder, 20, 10);
  EXPECT_EQ(steps_in(bytes_of(folder + "/events.out.tfevents.1.host.1.0")), (std::vector<std::int64_t>{0}));
}

TEST(CutEventsAfter, DropsARecordThatAKillTore) {
  const std::string folder = fresh_folder();
  const std::string path = file_with_steps(folder, 0, {10, 20, 30});
  fs::resize_file(path, fs::file_size(path) - 5);
  EXPECT_TRUE(cut_events_after(folder, 100, 100).empty());
  EXPECT_EQ(steps_in(bytes_of(path)), (std::vector<std::int64_t>{10, 20}));
}

TEST(CutEventsAfter, DropsADamagedRecordAloneAndNamesItsFile) {
  const std::string folder = fresh_folder();
  const std::string path = file_with_steps(folder, 0, {10, 20, 30}), sound = file_with_steps(folder, 1, {40});
  std::string bytes = bytes_of(path);
  const std::size_t record = fs::file_size(sound) - version_event(0.0).size();  // each of one length
  bytes[bytes.size() - record - record / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(cut_events_after(folder, 100, 100), std::vector<std::string>{path});
  EXPECT_EQ(steps_in(bytes_of(path)), (std::vector<std::int64_t>{10, 30}));
  EXPECT_TRUE(cut_events_after(folder, 100, 100).empty());
}

TEST(CutEventsAfter, RemovesWhatAKilledCutHasLeft) {
  const std::string folder = fresh_folder();
  const std::string path = file_with_steps(folder, 0, {10, 20});
  const std::string left = folder + "/.tmp-bascule-events.out.tfevents.1700000000.host.77.0";
  std::ofstream(left) << "half of it";
  std::ofstream(folder + "/.tmp-bascule-other") << "not an event file";
  cut_events_after(folder, 20, 20);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(folder + "/.tmp-bascule-other"));
  EXPECT_EQ(steps_in(bytes_of(path)), (std::vector<std::int64_t>{10, 20}));
}

TEST(CutEventsAfter, LeavesAForeignFileAloneAndNamesIt) {
  const std::string folder = fresh_folder();
  fs::create_directories(folder);
  const std::string path = folder + "/events.out.tfevents.notes";
  std::ofstream(path) << "these are my notes, and they are dear to me";
  EXPECT_THROW(cut_events_after(folder, 0, 0), Error);
  EXPECT_TRUE(fs::exists(path));
}

TEST(CutEventsAfter, AFolderThatIsNotThereIsFine) { EXPECT_NO_THROW(cut_events_after(fresh_folder(), 3, 3)); }

}  // namespace
}  // namespace bascule
