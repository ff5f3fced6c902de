// SPDX-License-Identifier: Apache-2.0
#include "src/http/request_reader.h"

#include <algorithm>
#include <cstring>
#include <new>

// With its assertions the parser ends the program where "0\r\n", "\r" and "\n" arrive one by one; without them it is
// right.
#define BOOST_DISABLE_ASSERTS  // NOLINT(readability-identifier-naming)
#include <boost/beast/http/basic_parser.hpp>

namespace bascule {
namespace {

namespace http = boost::beast::http;

// Sizes, extensions and ends of chunks may be so much longer than what they hold.
constexpr std::size_t kFramingBytes = 65536, kChunkFramingBytes = 16, kMostChunkLineBytes = 256;

template <typename View>
std::string_view standard(View view) noexcept {
  return {view.data(), view.size()};
}

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// A host and a port, of a Host header or an absolute target: letters, digits and what else RFC 3986 has in them.
bool is_authority(std::string_view text) noexcept {
  constexpr std::string_view kOthers = "-._~%!$&'()*+,;=:[]";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || kOthers.find(c) != kOthers.npos;
  });
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
}

HttpMethod method_of(http::verb verb) noexcept {
  switch (verb) {
    case http::verb::get: return HttpMethod::kGet;
    case http::verb::head: return HttpMethod::kHead;
    case http::verb::post: return HttpMethod::kPost;
    case http::verb::options: return HttpMethod::kOptions;
    default: return HttpMethod::kOther;
  }
}

}  // namespace

bool has_request_parser() noexcept { return true; }

// What Beast's parser calls. Any error ends the request; the reader keeps the status.
class HeadParser final : public http::basic_parser<true> {
 public:
  explicit HeadParser(RequestReader* reader) noexcept : reader_(*reader) {
    header_limit(static_cast<std::uint32_t>(kReaderBytes));
    body_limit(~std::uint64_t{0});  // read_body() knows it
  }

  bool has_host() const noexcept { return (seen_ & 1u << kHost) != 0; }

 private:
  using Code = boost::beast::error_code;
  using View = boost::beast::string_view;
  enum Single { kHost, kLength, kCoding, kType, kContentCoding, kKey, kExpect, kOrigin };

  void refuse(int status, const char* reason, Code& error) noexcept {
    reader_.refuse(status, reason);
    error = http::error::bad_value;
  }

  // Headers that two readers could take for different ones come once.
  bool is_first(Single header, Code& error) noexcept {
    if ((seen_ & 1u << header) != 0) refuse(400, "a header that comes twice", error);
    seen_ |= 1u << header;
    return !error;
  }

  void on_request_impl(http::verb verb, View, View target, int version, Code& error) override {
    if (verb == http::verb::unknown) return refuse(501, "a method that this server does not know", error);
    reader_.head_.method = method_of(verb);
    reader_.head_.is_http_1_0 = version == 10;
    char* begin = reader_.memory_ + (target.data() - reader_.memory_);
    if (!reader_.take_target(begin, target.size())) refuse(400, "a target that is no path", error);
  }

  void on_field_impl(http::field field, View, View text, Code& error) override {
    if (is_head_read_) return;  // a trailer
    RequestHead& head = reader_.head_;
    const std::string_view value = standard(text);
    switch (field) {
      case http::field::host:
        if (is_first(kHost, error) && !is_authority(value)) refuse(400, "a Host that is none", error);
        break;
      case http::field::content_length:
        if (is_first(kLength, error) && value.find_first_not_of("0123456789") != value.npos)
          refuse(400, "a Content-Length that is no number", error);
        head.has_length = true;
        break;
      case http::field::transfer_encoding:
        if (is_first(kCoding, error) && !equals_ignoring_case(value, "chunked"))
          refuse(501, "a Transfer-Encoding other than chunked", error);
        else if (head.is_http_1_0)
          refuse(400, "a Transfer-Encoding in HTTP/1.0", error);
        head.is_chunked = true;
        break;
      case http::field::expect:
        if (is_first(kExpect, error) && !equals_ignoring_case(value, "100-continue"))
          refuse(417, "an Expect other than 100-continue", error);
        head.expects_continue = !head.is_http_1_0;
        break;
      case http::field::content_type: take_once(kType, &head.content_type, value, error); break;
      case http::field::content_encoding: take_once(kContentCoding, &head.content_encoding, value, error); break;
      case http::field::authorization: take_once(kKey, &head.authorization, value, error); break;
      case http::field::origin: take_once(kOrigin, &head.origin, value, error); break;
      default: break;
    }
  }

  void take_once(Single header, std::string_view* to, std::string_view value, Code& error) noexcept {
    if (is_first(header, error)) *to = value;
  }

  void on_header_impl(Code&) override {
    is_head_read_ = true;
    reader_.head_.keep_alive = keep_alive();  // a trailer may change it
    if (reader_.head_.has_length) reader_.head_.content_length = *content_length();
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, Code&) override {}
  std::size_t on_body_impl(View part, Code&) override { return append(part); }
  std::size_t on_chunk_body_impl(std::uint64_t, View part, Code&) override {
    reader_.chunk_left_ -= part.size();
    return append(part);
  }

  void on_chunk_header_impl(std::uint64_t size, View extension, Code& error) override {
    reader_.chunk_left_ = size;
    reader_.framing_bytes_ += kChunkFramingBytes + extension.size();
    if (reader_.framing_bytes_ > kFramingBytes + reader_.body_bytes_) refuse(400, "chunks too small", error);
  }

  void on_finish_impl(Code&) override {}
  void on_response_impl(int, View, int, Code&) override {}

  // The bytes may lie where they belong already.
  std::size_t append(View part) noexcept {
    std::memmove(reader_.body_ + reader_.body_bytes_, part.data(), part.size());
    reader_.body_bytes_ += part.size();
    return part.size();
  }

  RequestReader& reader_;
  unsigned seen_ = 0;
  bool is_head_read_ = false;
};

HeadParser& RequestReader::parser() noexcept {
  static_assert(sizeof(HeadParser) <= kParserBytes && alignof(HeadParser) <= 16);
  return *std::launder(static_cast<HeadParser*>(static_cast<void*>(parser_)));
}

RequestReader::~RequestReader() { end_parser(); }

void RequestReader::end_parser() noexcept {
  if (has_parser_) parser().~HeadParser();
  has_parser_ = false;
}

ReadState RequestReader::refuse(int status, const char* reason) noexcept {
  refusal_ = status;
  reason_ = reason;
  return state_ = ReadState::kRefused;
}

void RequestReader::reset() noexcept {
  used_ = parsed_ = 0;
  (void)next();
}

ReadState RequestReader::next() noexcept {
  end_parser();
  used_ -= parsed_;
  if (used_ > 0 && parsed_ > 0) std::memmove(memory_, memory_ + parsed_, used_);
  parsed_ = scanned_ = line_ = head_bytes_ = body_bytes_ = framing_bytes_ = chunk_left_ = 0;
  lines_ = refusal_ = 0;
  head_ = {};
  body_ = nullptr;
  room_ = {};
  reason_ = "";
  state_ = ReadState::kHead;
  return scan_head();
}

// A body that has memory of its own is read straight into it.
bool RequestReader::reads_into_room() const noexcept {
  return state_ == ReadState::kBody && !head_.is_chunked && !room_.empty();
}

Span<char> RequestReader::space() noexcept {
  if (reads_into_room()) return room_.subspan(body_bytes_, head_.content_length - body_bytes_);
  return {memory_ + used_, kReaderBytes - used_};
}

ReadState RequestReader::take(std::size_t bytes) noexcept {
  if (reads_into_room()) {
    parse(room_.data() + body_bytes_, bytes);
    return state_;
  }
  used_ += bytes;
  return state_ == ReadState::kHead ? scan_head() : advance();
}

// Looks for the empty line that ends a head, byte by byte, so that no verdict depends on how they arrive. Beast is
// given a whole head and sees neither a control nor a folded line.
ReadState RequestReader::scan_head() noexcept {
  for (; scanned_ < used_; ++scanned_) {
    const char c = memory_[scanned_];
    const bool follows_return = scanned_ > line_ && memory_[scanned_ - 1] == '\r';
    if (scanned_ == kMostHeadBytes) return refuse(lines_ == 0 ? 414 : 431, "a head of more than 8 KiB");
    if ((c == '\n') != follows_return) return refuse(400, "a line that does not end with CR LF");
    if (c == '\n') {
      if (scanned_ - line_ == 1) {
        head_bytes_ = parsed_ = scanned_ + 1;
        return parse_head();
      }
      if (++lines_ > kMostHeadLines) return refuse(431, "more than 100 lines in a head");
      line_ = scanned_ + 1;
    } else if (is_control(c) && c != '\t' && c != '\r') {
      return refuse(400, "a control character in a head");
    } else if (scanned_ == line_ && (c == ' ' || c == '\t')) {
      return refuse(400, "a folded line in a head");
    }
  }
  return state_;
}

ReadState RequestReader::parse_head() noexcept {
  const std::string_view head(memory_, head_bytes_);
  const std::string_view line = head.substr(0, head.find('\r'));
  const std::string_view version = line.substr(line.rfind(' ') + 1);
  const bool is_version = version.size() == 8 && version.substr(0, 5) == "HTTP/" && version[6] == '.';
  if (is_version && version != "HTTP/1.1" && version != "HTTP/1.0") return refuse(505, "HTTP other than 1.0 and 1.1");
  new (parser_) HeadParser(this);
  has_parser_ = true;
  boost::beast::error_code error;
  parser().put({memory_, head_bytes_}, error);
  if (state_ == ReadState::kRefused) return state_;
  if (error) return refuse(400, "a head that is not HTTP");
  if (!head_.is_http_1_0 && !parser().has_host()) return refuse(400, "a request without Host");
  return state_ = ReadState::kHeadRead;
}

bool RequestReader::take_target(char* target, std::size_t bytes) noexcept {
  std::string_view text(target, bytes);
  if (std::any_of(text.begin(), text.end(), [](char c) { return c < '!' || c > '~' || c == '#'; })) return false;
  constexpr std::string_view kScheme = "http://";
  if (equals_ignoring_case(text.substr(0, kScheme.size()), kScheme)) {
    text.remove_prefix(kScheme.size());
    const std::string_view authority = text.substr(0, text.find_first_of("/?"));
    if (!is_authority(authority)) return false;
    text.remove_prefix(authority.size());
  } else if (text[0] != '/') {
    return false;
  }
  const std::size_t mark = std::min(text.find('?'), text.size());
  if (mark < text.size()) head_.query = text.substr(mark + 1);
  if (mark == 0) {
    head_.path = "/";
    return true;
  }
  return take_path(target + (text.data() - target), mark);
}

// Replaces its escapes in place. An escaped slash or control would be another path to other readers.
bool RequestReader::take_path(char* path, std::size_t bytes) noexcept {
  std::size_t to = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    char c = path[i];
    if (c == '%') {
      const int high = i + 2 < bytes ? hex_digit(path[i + 1]) : -1, low = high >= 0 ? hex_digit(path[i + 2]) : -1;
      if (low < 0) return false;
      c = static_cast<char>(16 * high + low);
      if (is_control(c) || c == '/') return false;
      i += 2;
    }
    path[to++] = c;
  }
  head_.path = {path, to};
  return true;
}

bool RequestReader::fits_behind_head() const noexcept {
  return !head_.is_chunked && head_.content_length <= kReaderBytes - head_bytes_;
}

ReadState RequestReader::read_body(Span<char> room, std::uint64_t limit) noexcept {
  BASCULE_CHECK(room.empty() ? fits_behind_head() : head_.is_chunked || head_.content_length <= room.size());
  room_ = room;
  body_ = room.empty() ? memory_ + head_bytes_ : room.data();
  if (parser().is_done()) return state_ = ReadState::kWhole;
  parser().body_limit(room.empty() ? limit : std::min<std::uint64_t>(limit, room.size()));
  state_ = ReadState::kBody;
  return advance();
}

// Whether a chunk's size with its extensions is here whole. One with controls or quotes that do not end is refused:
// Beast would look for their end in what follows, and count the chunk again with every part of it.
bool RequestReader::has_chunk_line() noexcept {
  const std::size_t begin = parsed_ + (framing_bytes_ > 0 ? 2 : 0);  // behind the end of the chunk before
  bool is_quoted = false, is_escaped = false;
  for (std::size_t i = begin; i < used_; ++i) {
    const char c = memory_[i];
    const bool follows_return = i > begin && memory_[i - 1] == '\r';
    if (c == '\n' && follows_return && !is_quoted) return true;
    if (follows_return || (is_control(c) && c != '\t' && c != '\r') || i - begin == kMostChunkLineBytes) {
      refuse(400, "a chunk's size or its extensions");
      return false;
    }
    if (c == '"' && !is_escaped) is_quoted = !is_quoted;
    is_escaped = is_quoted && c == '\\' && !is_escaped;
  }
  return false;
}

ReadState RequestReader::advance() noexcept {
  while (state_ == ReadState::kBody && parsed_ < used_) {
    if (head_.is_chunked && chunk_left_ == 0 && !has_chunk_line()) break;
    const std::size_t parsed = parse(memory_ + parsed_, used_ - parsed_);
    parsed_ += parsed;
    if (parsed == 0) break;  // the rest of a chunk's size is still to come
  }
  if (state_ != ReadState::kBody || !head_.is_chunked) return state_;
  // What chunks held is in the room: theirs is the memory behind the head.
  std::memmove(memory_ + head_bytes_, memory_ + parsed_, used_ - parsed_);
  used_ -= parsed_ - head_bytes_;
  parsed_ = head_bytes_;
  return used_ == kReaderBytes ? refuse(400, "a chunk's size or the trailers are too long") : state_;
}

std::size_t RequestReader::parse(const char* bytes, std::size_t count) noexcept {
  boost::beast::error_code error;
  const std::size_t parsed = parser().put({bytes, count}, error);
  if (error && error != http::error::need_more && state_ != ReadState::kRefused)
    refuse(error == http::error::body_limit ? 413 : 400, "chunks that are not HTTP or hold too much");
  if (state_ == ReadState::kBody && parser().is_done()) state_ = ReadState::kWhole;
  return parsed;
}

}  // namespace bascule
