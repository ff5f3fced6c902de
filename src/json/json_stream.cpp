// SPDX-License-Identifier: Apache-2.0
#include "src/json/json_stream.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "src/base/base64.h"
#include "src/base/utf8.h"

namespace bascule {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

void JsonStream::put(std::string_view text) noexcept {
  if (text.size() > buffer_.size() - used_) {
    overflowed_ = true;
    return;
  }
  if (!text.empty()) std::memcpy(buffer_.data() + used_, text.data(), text.size());
  used_ += text.size();
}

void JsonStream::put_quoted(std::string_view text) noexcept {
  put("\"");
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t bytes = utf8_bytes_at(text, place);
    if (bytes != 1) {
      put(bytes == 0 ? kReplacementCharacter : text.substr(place, bytes));
      place += bytes == 0 ? 1 : bytes;
      continue;
    }
    const char c = text[place++];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      const char escaped[2] = {'\\', c};
      put({escaped, 2});
    } else if (byte < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      const char escaped[6] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      put({escaped, 6});
    } else {
      put({&c, 1});
    }
  }
  put("\"");
}

void JsonStream::before_value() noexcept {
  if (comma_) put(", ");
  comma_ = true;
}

JsonStream& JsonStream::begin_object() noexcept {
  before_value();
  put("{");
  comma_ = false;
  return *this;
}

JsonStream& JsonStream::end_object() noexcept {
  put("}");
  comma_ = true;
  return *this;
}

JsonStream& JsonStream::begin_array() noexcept {
  before_value();
  put("[");
  comma_ = false;
  return *this;
}

JsonStream& JsonStream::end_array() noexcept {
  put("]");
  comma_ = true;
  return *this;
}

JsonStream& JsonStream::key(std::string_view name) noexcept {
  before_value();
  put_quoted(name);
  put(": ");
  comma_ = false;
  return *this;
}

JsonStream& JsonStream::string(std::string_view value) noexcept {
  before_value();
  put_quoted(value);
  return *this;
}

JsonStream& JsonStream::integer(std::int64_t value) noexcept {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return raw({digits, static_cast<std::size_t>(end - digits)});
}

template <typename Real>
JsonStream& JsonStream::real(Real value) noexcept {
  if (!std::isfinite(value)) return null();
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return raw({digits, static_cast<std::size_t>(end - digits)});
}

JsonStream& JsonStream::number(double value) noexcept { return real(value); }
JsonStream& JsonStream::float32(float value) noexcept { return real(value); }

JsonStream& JsonStream::base64(Span<const std::byte> bytes) noexcept {
  char group[4];
  before_value();
  put("\"");
  for (std::size_t i = 0; i < bytes.size(); i += 3)
    put(write_base64(bytes.subspan(i, std::min<std::size_t>(3, bytes.size() - i)), group));
  put("\"");
  return *this;
}

JsonStream& JsonStream::boolean(bool value) noexcept { return raw(value ? "true" : "false"); }

JsonStream& JsonStream::null() noexcept { return raw("null"); }

JsonStream& JsonStream::raw(std::string_view json) noexcept {
  before_value();
  put(json);
  return *this;
}

JsonStream& JsonStream::line_break() noexcept {
  put("\n");
  return *this;
}

void JsonStream::clear() noexcept {
  used_ = 0;
  overflowed_ = false;
  comma_ = false;
}

}  // namespace bascule
