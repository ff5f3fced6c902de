// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files, written by hand: TFRecord framing with masked CRC-32C, protobuf Event messages with scalar
// and text summaries, tags as Hugging Face's trainer names them. open() and text() belong before the seal or after the
// end; everything else is sealed: it encodes into a fixed buffer inside the writer and calls write(2) once an event.
//
//   cut_events_after(folder, step, evaluated);                        // on resume: what will be computed again is cut
//   TensorBoardWriter events = TensorBoardWriter::open(folder, {unix_seconds, host, pid, 0});
//   events.text("args", settings_as_markdown, 0, unix_seconds);
//   sealed: BASCULE_TRY(events.step(record, unix_seconds));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/span.h"
#include "src/base/status.h"
#include "src/logs/step_record.h"

namespace bascule {

struct EventFileName {
  std::int64_t unix_seconds = 0;
  std::string host;
  std::int64_t pid = 0;
};

class TensorBoardWriter {
 public:
  TensorBoardWriter() = default;  // writes nothing, every call succeeds: tensorboard = false

  // Makes `folder` and in it events.out.tfevents.<time>.<host>.<pid>.<number>, with the first number from 0 that no
  // file has. Throws Error{kDisk}.
  static TensorBoardWriter open(const std::string& folder, const EventFileName& name);
  bool is_open() const noexcept { return file_.is_open(); }

  // A text entry (Markdown). Allocates; throws Error{kDisk}.
  void text(const std::string& tag, const std::string& markdown, std::int64_t step, double unix_seconds);

  // One event with train/loss, train/grad_norm, train/learning_rate, train/epoch, train/samples_per_second and the
  // seconds by phase (time/forward ...).
  Status step(const StepRecord& record, double unix_seconds) noexcept;
  // eval/loss, eval/runtime, eval/samples_per_second, eval/steps_per_second, eval/<metric>; test/... for the test
  // split, eval_ema/... and test_ema/... for averaged weights.
  Status evaluation(const EvaluationRecord& record, Metrics metrics, double unix_seconds) noexcept;
  // Any other scalar. tag: at most 120 bytes.
  Status scalar(const char* tag, double value, std::int64_t step, double unix_seconds) noexcept;
  // Bytes on the disk before a checkpoint says that they are there.
  Status sync() noexcept;

 private:
  Status write_bytes(const unsigned char* bytes, std::size_t size) noexcept;

  Descriptor file_;
};

// Rewrites every event file in `folder` so that no event later than `step` is left, no evaluation later than
// `evaluated` (one made after the checkpoint of its step, which will be made again), and no torn record at its end; a
// file left without events is removed. A folder that does not exist is fine. Returns the files of which a record is
// damaged, and gone. Before the seal; throws Error{kDisk}, and
// Error{kData} for a file that is no event file at all.
std::vector<std::string> cut_events_after(const std::string& folder, std::int64_t step, std::int64_t evaluated);

// The bytes of a TensorBoard event file. A file is a run of TFRecords (length, CRC of the length, content, CRC of the
// content, all little-endian); each content is a protobuf Event. Only what we write is encoded; of what is read only
// the step matters.
//   Event: 1 wall_time double, 2 step varint, 3 file_version string, 5 Summary
//   Summary: 1 repeated Value;  Value: 1 tag, 2 simple_value float, 8 TensorProto, 9 SummaryMetadata

// CRC-32C (Castagnoli), and TFRecord's masked form of it.
std::uint32_t crc32c(const void* data, std::size_t bytes) noexcept;
std::uint32_t masked_crc32c(const void* data, std::size_t bytes) noexcept;

// One event with scalars, encoded into a fixed buffer: scalars first, then finish() puts step, time and frame around
// them. Sealed: allocates nothing. add_scalar refuses a scalar that does not fit.
class ScalarEvent {
 public:
  // tag: at most kMaxTagBytes. False, and nothing added, if it is longer or the event is full (about 35 scalars).
  bool add_scalar(const char* tag, double value) noexcept;
  bool empty() const noexcept { return end_ == kFrontBytes; }
  // The framed record; valid until the event is destroyed. Called once.
  Span<const unsigned char> finish(std::int64_t step, double unix_seconds) noexcept;

  static constexpr std::size_t kMaxTagBytes = 120;

 private:
  // Frame (12), wall time (9), step (11), summary's key and length (6).
  static constexpr std::size_t kFrontBytes = 40;
  static constexpr std::size_t kTailBytes = 4;
  unsigned char bytes_[2048];
  std::size_t end_ = kFrontBytes;
};

// Framed records that may be of any length. They allocate: before the seal or in the finish phase.
std::string version_event(double unix_seconds);  // "brain.Event:2", the first record of every file
std::string text_event(const std::string& tag, const std::string& text, std::int64_t step, double unix_seconds);

// Reads the record at the front of `bytes`.
enum class RecordState {
  kWhole,
  kTorn,    // ends within the record, or its content does not match its CRC
  kForeign  // what stands there is no record's head
};
struct EventRecord {
  RecordState state = RecordState::kTorn;
  bool is_cut = false;    // kTorn: the bytes end within it
  std::size_t bytes = 0;  // of the whole framed record; 0 where its end is not known
  std::int64_t step = 0;  // 0 if the event names none
  bool file_version = false;
  bool evaluation = false;  // scalars of an evaluation: "eval/..." or "test/..."
};
EventRecord read_event_record(Span<const unsigned char> bytes) noexcept;

}  // namespace bascule
