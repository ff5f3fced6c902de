// SPDX-License-Identifier: Apache-2.0
// JSON written after the seal: tokens go straight into memory of the caller. noexcept, allocates nothing. Output that
// does not fit is dropped and overflowed() says so; the caller sizes the buffer before the seal and checks once at the
// end.
//
//   JsonStream out(buffer);
//   out.begin_object();
//   out.key("loss").number(loss).key("step").integer(step);
//   out.end_object();
//   if (out.overflowed()) ...; write(fd, out.text().data(), out.text().size());
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/span.h"

namespace bascule {

class JsonStream {
 public:
  explicit JsonStream(Span<char> buffer) noexcept : buffer_(buffer) {}

  JsonStream& begin_object() noexcept;
  JsonStream& end_object() noexcept;
  JsonStream& begin_array() noexcept;
  JsonStream& end_array() noexcept;
  JsonStream& key(std::string_view name) noexcept;

  JsonStream& string(std::string_view value) noexcept;  // escaped; U+FFFD for bytes that are not UTF-8
  JsonStream& integer(std::int64_t value) noexcept;
  JsonStream& number(double value) noexcept;  // shortest text that reads back to the same double; NaN, Infinity: null
  JsonStream& float32(float value) noexcept;  // the same, that reads back to the same float
  JsonStream& base64(Span<const std::byte> bytes) noexcept;  // as a string
  JsonStream& boolean(bool value) noexcept;
  JsonStream& null() noexcept;
  JsonStream& raw(std::string_view json) noexcept;  // a whole value that is JSON already
  JsonStream& line_break() noexcept;                // white space between values, for people

  std::string_view text() const noexcept { return {buffer_.data(), used_}; }
  bool overflowed() const noexcept { return overflowed_; }
  // Begins again with an empty buffer.
  void clear() noexcept;

 private:
  template <typename Real>
  JsonStream& real(Real value) noexcept;
  void put(std::string_view text) noexcept;
  void put_quoted(std::string_view text) noexcept;
  void before_value() noexcept;

  Span<char> buffer_;
  std::size_t used_ = 0;
  bool overflowed_ = false;
  bool comma_ = false;  // a value stands before this place in the same object or array
};

}  // namespace bascule
