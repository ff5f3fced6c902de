// SPDX-License-Identifier: Apache-2.0
// The bytes of a TensorBoard event file. A file is a run of TFRecords (length, CRC of the length, content, CRC of the
// content, all little-endian); each content is a protobuf Event. Only what we write is encoded; of what is read only
// the step matters.
//   Event: 1 wall_time double, 2 step varint, 3 file_version string, 5 Summary
//   Summary: 1 repeated Value;  Value: 1 tag, 2 simple_value float, 8 TensorProto, 9 SummaryMetadata
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/span.h"

namespace bascule {

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
