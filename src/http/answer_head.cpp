// SPDX-License-Identifier: Apache-2.0
#include "src/http/server_state.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "src/base/base64.h"
#include "src/base/check.h"

namespace bascule {
namespace {

// Text into memory that it must fit into, or is cut by.
class HeadText {
 public:
  explicit HeadText(Span<char> out) noexcept : out_(out) {}

  HeadText& add(std::string_view text) noexcept {
    const std::size_t count = std::min(text.size(), out_.size() - size_);
    is_cut_ = is_cut_ || count < text.size();
    if (count > 0) std::memcpy(out_.data() + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  HeadText& add(std::size_t number) noexcept {
    char digits[24];
    const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return add({digits, static_cast<std::size_t>(end - digits)});
  }
  std::size_t size() const noexcept { return size_; }
  bool is_cut() const noexcept { return is_cut_; }

 private:
  Span<char> out_;
  std::size_t size_ = 0;
  bool is_cut_ = false;
};

std::string_view reason_of(int status) noexcept {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 424: return "Failed Dependency";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

}  // namespace

std::size_t write_answer_head(Span<char> out, const HttpAnswer& answer, const AnswerConnection& connection) noexcept {
  HeadText text(out);
  text.add("HTTP/1.1 ").add(static_cast<std::size_t>(answer.status)).add(" ").add(reason_of(answer.status)).add("\r\n");
  if (!answer.content_type.empty()) {
    text.add("Content-Type: ").add(answer.content_type).add("\r\nContent-Length: ").add(answer.body.size()).add("\r\n");
    char digest[base64_characters(32)];
    text.add("Repr-Digest: sha-256=:").add(base64_sha256(answer.body, digest)).add(":\r\n");  // RFC 9530
  }
  text.add(connection.standing_headers).add(answer.headers);
  if (!connection.allowed_origin.empty()) {
    text.add("Access-Control-Allow-Origin: ").add(connection.allowed_origin).add("\r\nVary: Origin\r\n");
  }
  if (connection.closes) text.add("Connection: close\r\n");
  if (connection.says_keep_alive) text.add("Connection: keep-alive\r\n");
  text.add("\r\n");
  BASCULE_CHECK(!text.is_cut());
  return text.size();
}

std::size_t write_http_error(char* out, std::size_t capacity, std::string_view path, int status, std::string_view type,
                             std::string_view message) noexcept {
  HeadText text({out, capacity});
  if (path.substr(0, 4) == "/v1/") {
    text.add(R"({"error":{"message":")").add(message).add(R"(","type":")").add(type);
    text.add(R"(","param":null,"code":)").add(static_cast<std::size_t>(status)).add("}}");
  } else {
    text.add(R"({"error":")").add(message).add(R"(","error_type":")").add(type).add(R"("})");
  }
  return text.size();
}

}  // namespace bascule
