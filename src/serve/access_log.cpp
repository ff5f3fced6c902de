// SPDX-License-Identifier: Apache-2.0
#include "src/serve/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

constexpr std::string_view kBegin = "{\"sequence\"";  // of a line
constexpr std::size_t kLineBytes = 2048, kEscapedInLog = 6, kMostTypeBytes = 100;

}  // namespace

Sha256Text::Sha256Text(Sha256* sum) noexcept {
  unsigned char bytes[32];
  sum->end(bytes);
  constexpr std::string_view kName = "sha256:";
  bytes_ = kName.copy(text_, kName.size());
  for (const unsigned char byte : bytes) {
    text_[bytes_++] = "0123456789abcdef"[byte >> 4];
    text_[bytes_++] = "0123456789abcdef"[byte & 15];
  }
}

Sha256Text::Sha256Text(std::string_view bytes) noexcept {
  Sha256 sum;
  sum.add(bytes.data(), bytes.size());
  *this = Sha256Text(&sum);
}

std::size_t AccessLog::bytes(bool keeps_requests, std::size_t most_bytes) {
  return kLineBytes + (keeps_requests ? kEscapedInLog * most_bytes : 0);
}

AccessLog::AccessLog(const std::string& path, bool keeps_requests, std::size_t most_bytes, std::string model)
    : file_(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640)),
      keeps_requests_(keeps_requests),
      model_(std::move(model)),
      line_(bytes(keeps_requests, most_bytes)) {
  if (!file_.is_open()) file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
  if (!file_.is_open())
    throw Error(ErrorKind::kDisk, path, std::string("cannot be written: ") + std::strerror(errno),
                advice_for_disk(errno));
  continue_file(path);
}

// A file that is not a regular one has no line before ours.
void AccessLog::continue_file(const std::string& path) {
  const off_t end = ::lseek(file_.number(), 0, SEEK_END);
  if (end <= 0) return;
  std::string tail;
  for (off_t from = end; from > 0 && std::count(tail.begin(), tail.end(), '\n') < 2;) {
    const off_t begin = std::max<off_t>(0, from - 65536);
    std::string part(static_cast<std::size_t>(from - begin), '\0');
    if (::pread(file_.number(), part.data(), part.size(), begin) != static_cast<ssize_t>(part.size())) return;
    tail.insert(0, part);
    from = begin;
  }
  // Each line is one write: only a loss of power cuts one.
  const std::size_t whole = tail.rfind('\n') + 1;
  const std::string_view cut = std::string_view(tail).substr(whole);
  const bool is_ours = kBegin.substr(0, cut.size()) == cut.substr(0, kBegin.size());
  if (!is_ours || (!cut.empty() && ::ftruncate(file_.number(), end - static_cast<off_t>(cut.size())) != 0))
    throw Error(ErrorKind::kDisk, path, "ends within a line", "remove that line, or name another file");
  if (!cut.empty())
    std::fprintf(stderr, "bascule: serve: %s: removed its last line, which was cut off\n", path.c_str());
  if (whole == 0) return;
  tail.resize(whole - 1);
  const std::size_t begin = tail.rfind('\n') + 1;
  const std::string last = tail.substr(begin);
  sequence_ = get_unsigned(parse_json(last, path), "sequence", path) + 1;
  previous_ = Sha256Text(last);
}

void AccessLog::add(const AccessRecord& record) noexcept {
  if (!file_.is_open()) return;
  JsonStream line({line_.data(), line_.size() - 1});
  line.begin_object().key("sequence").integer(static_cast<std::int64_t>(sequence_));
  line.key("time").number(record.unix_seconds).key("path").string(record.path);
  line.key("status").integer(record.status).key("model").string(model_);
  line.key("request").string(Sha256Text(record.request).text());
  line.key("answer").string(Sha256Text(record.answer).text());
  line.key("inputs").integer(record.inputs).key("batch_inputs").integer(record.batch_inputs);
  line.key("queue_ms").number(record.queue_ms).key("inference_ms").number(record.inference_ms);
  line.key("total_ms").number(record.total_ms);
  line.key("content_type").string(record.content_type.substr(0, kMostTypeBytes));
  if (keeps_requests_ && first_invalid_utf8(record.request) == record.request.size()) {
    line.key("body").string(record.request);
  } else if (keeps_requests_) {
    const void* const bytes = record.request.data();
    line.key("body_base64").base64({static_cast<const std::byte*>(bytes), record.request.size()});
  }
  line.key("previous").string(previous_.text()).end_object();
  const std::size_t bytes = line.text().size();
  line_[bytes] = '\n';
  if (line.overflowed() || ::write(file_.number(), line_.data(), bytes + 1) != static_cast<ssize_t>(bytes + 1)) {
    ++lost_;
    return;
  }
  ++sequence_;
  previous_ = Sha256Text({line_.data(), bytes});
}

}  // namespace bascule
