// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

constexpr std::size_t kOtherBytes = 2048;  // of a line beside the prompts: keys, numbers, the file's name
constexpr std::size_t kMostEscape = 6;     // \u001f
constexpr std::size_t kDigits = 16;
constexpr std::size_t kDigestBytes = kDigits + 4;  // in a list: quotes, comma, space
constexpr std::string_view kMembers[] = {"file",    "prompt", "negative_prompt", "seed", "noise",
                                         "seconds", "digest", "latents",         "check"};
constexpr char kCheck[] = ", \"check\": \"";

struct HexDigits {
  char text[kDigits];

  explicit HexDigits(std::uint64_t number) noexcept {
    for (std::size_t i = 0; i < kDigits; ++i) text[i] = "0123456789abcdef"[number >> (60 - 4 * i) & 15];
  }
};

std::uint64_t digest_of_text(const std::string& text, const char* key, const std::string& where) {
  std::uint64_t digest = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, digest, 16);
  if (text.size() != kDigits || read.ec != std::errc() || read.ptr != end)
    throw Error(ErrorKind::kData, where, std::string(key) + ": \"" + text + "\": must be 16 hexadecimal digits");
  return digest;
}

std::vector<std::uint64_t> digests_of(const Json& list, const std::string& where) {
  std::vector<std::uint64_t> digests;
  for (const Json& one : list) {
    if (!one.is_string()) throw Error(ErrorKind::kData, where, "latents has a member that is no text");
    digests.push_back(digest_of_text(one.string(), "latents", where));
  }
  return digests;
}

// A bit that changes the member's name makes another member of it, which no line has.
void check_line(std::string_view line, const Json& json, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(std::begin(kMembers), std::end(kMembers), key) == std::end(kMembers))
      throw Error(ErrorKind::kData, where, "has an unknown member \"" + key + "\"");
  }
  if (!json.contains("check")) return;
  const std::string_view content = line.substr(0, line.rfind(kCheck));
  const HexDigits digest(digest_of(content.data(), content.size()));
  if (line.substr(content.size()) != kCheck + std::string(digest.text, kDigits) + "\"}")
    throw Error(ErrorKind::kData, where, "does not have its checksum");
}

PictureLogRow row_of(std::string_view line, const std::string& path, std::int64_t number) {
  const Json json = parse_json(line, path, number);
  const std::string where = path + ":" + std::to_string(number);
  if (!json.is_object()) throw Error(ErrorKind::kData, where, "is not a JSON object");
  check_line(line, json, where);
  return {get_string(json, "file", where),
          get_string(json, "prompt", where),
          get_string(json, "negative_prompt", where),
          get_unsigned(json, "seed", where),
          get_number(json, "seconds", where),
          digest_of_text(get_string(json, "digest", where), "digest", where),
          get_int(json, "noise", where),
          digests_of(get_array(json, "latents", where), where)};
}

std::string existing_content(const std::string& path) {
  struct stat there = {};
  if (::stat(path.c_str(), &there) != 0 && errno == ENOENT) return "";
  try {
    return text_of_file(path);
  } catch (const Error& error) {
    if (error.reason() != 0) throw;
    throw Error(error.kind(), error.where(), error.problem(),
                "restore it, or move it away: all pictures are drawn again");
  }
}

// Bytes of its whole lines.
std::size_t whole_bytes(const std::string& content) { return content.rfind('\n') + 1; }

Status disk_failed() noexcept { return {StatusCode::kDiskFailed, {errno, 0}}; }

}  // namespace

PictureLog::PictureLog(std::size_t text_bytes, std::size_t digests) noexcept
    : line_bytes_(kOtherBytes + 2 * kMostEscape * text_bytes + kDigestBytes * digests) {}

void PictureLog::open(const std::string& path) {
  file_bytes_ = static_cast<std::int64_t>(whole_bytes(existing_content(path)));
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.is_open())
    throw Error(ErrorKind::kDisk, path, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno));
  const bool is_cut = ::ftruncate(file_.number(), file_bytes_) == 0 && ::fsync(file_.number()) == 0;
  throw_if_failed(is_cut ? ok_status() : disk_failed(), path, "cannot be cut behind its last whole line");
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  throw_if_failed(sync_folder(folder.c_str()), folder, "cannot be synced");
}

Status PictureLog::append(const PictureLogView& row) noexcept {
  const HexDigits digest(row.digest);
  JsonStream line(Span<char>(line_, line_bytes_));
  line.begin_object();
  line.key("file").string(row.file);
  line.key("prompt").string(row.prompt);
  line.key("negative_prompt").string(row.negative_prompt);
  char seed[20];
  line.key("seed").raw({seed, static_cast<std::size_t>(std::to_chars(seed, std::end(seed), row.seed).ptr - seed)});
  line.key("noise").integer(row.noise);
  line.key("seconds").number(row.seconds);
  line.key("digest").string({digest.text, kDigits});
  line.key("latents").begin_array();
  for (const std::uint64_t one : row.latents) line.string({HexDigits(one).text, kDigits});
  line.end_array();
  const HexDigits check(digest_of(line.text().data(), line.text().size()));
  line.key("check").string({check.text, kDigits});
  line.end_object().line_break();
  if (line.overflowed()) return {StatusCode::kDiskFailed, {EOVERFLOW, 0}};
  Status status = write_all(file_.number(), line.text().data(), line.text().size());
  if (status.ok() && ::fdatasync(file_.number()) != 0) status = disk_failed();
  if (status.ok()) {
    file_bytes_ += static_cast<std::int64_t>(line.text().size());
    return status;
  }
  [[maybe_unused]] const int removed = ::ftruncate(file_.number(), file_bytes_);  // otherwise open() will do it
  return status;
}

std::vector<PictureLogRow> read_picture_log(const std::string& path) {
  const std::string content = existing_content(path);
  std::vector<PictureLogRow> rows;
  for (std::size_t begin = 0, end = 0; begin < whole_bytes(content); begin = end + 1) {
    end = content.find('\n', begin);
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    try {
      rows.push_back(row_of(line, path, static_cast<std::int64_t>(rows.size() + 1)));
    } catch (const Error& error) {
      const std::string must = error.what_to_do().empty() ? "" : "; " + error.what_to_do();  // "it must be a string"
      throw Error(error.kind(), error.where(), error.problem() + must, kDamagedLineAdvice);
    }
  }
  return rows;
}

}  // namespace bascule
