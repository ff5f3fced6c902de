// SPDX-License-Identifier: Apache-2.0
#include "src/logs/tensorboard.h"

#include <array>
#include <cstring>
#include <string_view>

namespace bascule {
namespace {

constexpr std::size_t kHeadBytes = 12;  // length and its CRC
constexpr std::size_t kFootBytes = 4;   // CRC of the content

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1u) != 0 ? 0x82f63b78u ^ (rest >> 1) : rest >> 1;
    table[byte] = rest;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

void put_fixed32(unsigned char* at, std::uint32_t value) noexcept {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<unsigned char>(value >> (8 * i));
}
void put_fixed64(unsigned char* at, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) at[i] = static_cast<unsigned char>(value >> (8 * i));
}
std::uint64_t get_fixed(const unsigned char* at, int bytes) noexcept {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(at[i]) << (8 * i);
  return value;
}
std::uint64_t bits_of(double value) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Bytes written (at most 10).
std::size_t put_varint(unsigned char* at, std::uint64_t value) noexcept {
  std::size_t size = 0;
  while (value >= 0x80) {
    at[size++] = static_cast<unsigned char>(value | 0x80);
    value >>= 7;
  }
  at[size++] = static_cast<unsigned char>(value);
  return size;
}

// Wall time and step; at most 20 bytes.
std::size_t put_time_and_step(unsigned char* at, std::int64_t step, double unix_seconds) noexcept {
  at[0] = 0x09;  // field 1, 64 bits
  put_fixed64(at + 1, bits_of(unix_seconds));
  at[9] = 0x10;  // field 2, varint
  return 10 + put_varint(at + 10, static_cast<std::uint64_t>(step));
}

// Length-delimited field of a string that may be of any length.
void add_bytes(std::string& out, int field, const std::string& content) {
  unsigned char head[20];
  head[0] = static_cast<unsigned char>(field << 3 | 2);
  const std::size_t size = 1 + put_varint(head + 1, content.size());
  out.append(head, head + size);
  out += content;
}

std::string framed(const std::string& content) {
  unsigned char head[kHeadBytes];
  unsigned char foot[kFootBytes];
  put_fixed64(head, content.size());
  put_fixed32(head + 8, masked_crc32c(head, 8));
  put_fixed32(foot, masked_crc32c(content.data(), content.size()));
  std::string out(head, head + kHeadBytes);
  out += content;
  out.append(foot, foot + kFootBytes);
  return out;
}

// A cursor over a protobuf message; every read checks the end.
struct Cursor {
  const unsigned char* at;
  const unsigned char* end;

  bool varint(std::uint64_t& value) noexcept {
    value = 0;
    for (unsigned shift = 0; shift < 64 && at < end; shift += 7) {
      const unsigned char byte = *at++;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool skip(std::uint64_t bytes) noexcept {
    if (bytes > static_cast<std::uint64_t>(end - at)) return false;
    at += bytes;
    return true;
  }
};

// False: not a protobuf message.
bool read_event(Cursor cursor, EventRecord& record) noexcept {
  while (cursor.at < cursor.end) {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    if (!cursor.varint(key)) return false;
    switch (key & 7) {
      case 0:
        if (!cursor.varint(value)) return false;
        if (key >> 3 == 2) record.step = static_cast<std::int64_t>(value);
        break;
      case 1:
        if (!cursor.skip(8)) return false;
        break;
      case 2:
        if (!cursor.varint(value) || !cursor.skip(value)) return false;
        if (key >> 3 == 3) record.file_version = true;
        break;
      case 5:
        if (!cursor.skip(4)) return false;
        break;
      default: return false;
    }
  }
  return true;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes) noexcept {
  const unsigned char* at = static_cast<const unsigned char*>(data);
  std::uint32_t crc = 0xffffffffu;
  for (std::size_t i = 0; i < bytes; ++i) crc = kCrcTable[(crc ^ at[i]) & 0xffu] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t masked_crc32c(const void* data, std::size_t bytes) noexcept {
  const std::uint32_t crc = crc32c(data, bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

bool ScalarEvent::add_scalar(const char* tag, double value) noexcept {
  const std::size_t tag_bytes = std::strlen(tag);
  // Value's key and length (2), tag's key and length (2), simple_value (5): lengths below 128 take one byte.
  const std::size_t value_bytes = 2 + tag_bytes + 5;
  if (tag_bytes > kMaxTagBytes || end_ + 2 + value_bytes + kTailBytes > sizeof bytes_) return false;
  unsigned char* at = bytes_ + end_;
  at[0] = 0x0a;  // Summary field 1
  at[1] = static_cast<unsigned char>(value_bytes);
  at[2] = 0x0a;  // Value field 1
  at[3] = static_cast<unsigned char>(tag_bytes);
  std::memcpy(at + 4, tag, tag_bytes);
  at += 4 + tag_bytes;
  const float narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  at[0] = 0x15;  // Value field 2, 32 bits
  put_fixed32(at + 1, bits);
  end_ += 2 + value_bytes;
  return true;
}

Span<const unsigned char> ScalarEvent::finish(std::int64_t step, double unix_seconds) noexcept {
  // The bytes before the scalars vary in length; they are made here and moved directly before them.
  unsigned char front[kFrontBytes - kHeadBytes];
  std::size_t front_bytes = put_time_and_step(front, step, unix_seconds);
  front[front_bytes++] = 0x2a;  // Event field 5
  front_bytes += put_varint(front + front_bytes, end_ - kFrontBytes);

  const std::size_t content = kFrontBytes - front_bytes;
  const std::size_t begin = content - kHeadBytes;
  std::memcpy(bytes_ + content, front, front_bytes);
  put_fixed64(bytes_ + begin, end_ - content);
  put_fixed32(bytes_ + begin + 8, masked_crc32c(bytes_ + begin, 8));
  put_fixed32(bytes_ + end_, masked_crc32c(bytes_ + content, end_ - content));
  return Span<const unsigned char>(bytes_ + begin, end_ + kFootBytes - begin);
}

std::string version_event(double unix_seconds) {
  unsigned char front[9] = {0x09};
  put_fixed64(front + 1, bits_of(unix_seconds));
  std::string event(front, front + sizeof front);
  add_bytes(event, 3, "brain.Event:2");
  return framed(event);
}

std::string text_event(const std::string& tag, const std::string& text, std::int64_t step, double unix_seconds) {
  std::string plugin;
  add_bytes(plugin, 1, "text");
  std::string metadata;
  add_bytes(metadata, 1, plugin);

  const std::string one_element("\x12\x02\x08\x01", 4);  // TensorShapeProto: one dimension of size 1
  std::string tensor("\x08\x07", 2);                     // dtype DT_STRING
  add_bytes(tensor, 2, one_element);
  add_bytes(tensor, 8, text);

  std::string value;
  add_bytes(value, 1, tag);
  add_bytes(value, 9, metadata);
  add_bytes(value, 8, tensor);
  std::string summary;
  add_bytes(summary, 1, value);

  unsigned char front[20];
  const std::size_t front_bytes = put_time_and_step(front, step, unix_seconds);
  std::string event(front, front + front_bytes);
  add_bytes(event, 5, summary);
  return framed(event);
}

EventRecord read_event_record(Span<const unsigned char> bytes) noexcept {
  EventRecord record;
  record.is_cut = bytes.size() < kHeadBytes;
  if (record.is_cut) return record;
  if (get_fixed(bytes.data() + 8, 4) != masked_crc32c(bytes.data(), 8)) {
    record.state = RecordState::kForeign;
    return record;
  }
  const std::uint64_t length = get_fixed(bytes.data(), 8);
  record.is_cut = length > bytes.size() - kHeadBytes || bytes.size() - kHeadBytes - length < kFootBytes;
  if (record.is_cut) return record;
  record.bytes = kHeadBytes + length + kFootBytes;
  const unsigned char* content = bytes.data() + kHeadBytes;
  if (get_fixed(content + length, 4) != masked_crc32c(content, length)) return record;
  record.state = read_event(Cursor{content, content + length}, record) ? RecordState::kWhole : RecordState::kForeign;
  // A tag of every evaluation that we write: without labels it has no loss.
  const std::string_view text(static_cast<const char*>(static_cast<const void*>(content)), length);
  for (const char* tag : {"eval/runtime", "test/runtime", "eval_ema/runtime", "test_ema/runtime"})
    record.evaluation = record.evaluation || text.find(tag) != std::string_view::npos;
  return record;
}

}  // namespace bascule
