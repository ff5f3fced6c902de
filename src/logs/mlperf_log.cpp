// SPDX-License-Identifier: Apache-2.0
#include "src/logs/mlperf_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/json/json_stream.h"

namespace bascule {
namespace {

constexpr char kPrefix[] = ":::MLLOG ";
constexpr std::size_t kPrefixBytes = sizeof kPrefix - 1;
constexpr char kPoint[] = "POINT_IN_TIME", kStart[] = "INTERVAL_START", kStop[] = "INTERVAL_END";

void put_null(JsonStream& out) noexcept { out.null(); }
void put_nothing(JsonStream&) noexcept {}

void put_place(JsonStream& out, const MlperfLog::Place& place) noexcept {
  out.key("step_num").integer(place.step);
  out.key("epoch_num").number(place.epoch);
  out.key("samples_count").integer(place.samples);
}

}  // namespace

MlperfLog MlperfLog::open(const std::string& folder, int flags) {
  const std::string path = folder + "/" + kMlperfLogFile;
  MlperfLog log;
  log.file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644));
  if (!log.file_.is_open())
    throw Error{ErrorKind::kDisk, path, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno)};
  log.unix_offset_ns_ = clock_ns(CLOCK_REALTIME) - monotonic_ns();
  return log;
}

MlperfLog MlperfLog::begin(const std::string& folder) { return open(folder, O_TRUNC); }

MlperfLog MlperfLog::go_on(const std::string& folder, std::int64_t step) {
  MlperfLog log = open(folder, 0);
  log.is_resumed_ = true;
  log.line(
      kPoint, "bascule_resumed", monotonic_ns(), [&](JsonStream& out) { out.integer(step); },
      [](JsonStream& out) { out.key("note").string("a resumed run is not a valid MLPerf result"); });
  return log;
}

// file and lineno: as mlperf-logging has them, which tells the seeds of several places apart by them.
template <typename Value, typename Metadata>
void MlperfLog::line(const char* type, const char* key, std::int64_t at_ns, Value put_value,
                     Metadata put_metadata) noexcept {
  if (!file_.is_open()) return;
  std::memcpy(line_, kPrefix, kPrefixBytes);
  JsonStream out(Span<char>(line_ + kPrefixBytes, sizeof line_ - kPrefixBytes - 1));
  out.begin_object();
  out.key("namespace").string("");
  out.key("time_ms").integer((at_ns + unix_offset_ns_) / 1'000'000);
  out.key("event_type").string(type);
  out.key("key").string(key);
  out.key("value");
  put_value(out);
  out.key("metadata").begin_object();
  out.key("file").string("src/logs/mlperf_log.cpp");
  out.key("lineno").integer(__LINE__);
  put_metadata(out);
  out.end_object();
  out.end_object();
  std::size_t bytes = kPrefixBytes + out.text().size();
  line_[bytes++] = '\n';
  failed_ = failed_ || out.overflowed() || !write_all(file_.number(), line_, bytes).ok();
}

void MlperfLog::fact(const char* key, std::string_view value) noexcept {
  line(
      kPoint, key, monotonic_ns(), [&](JsonStream& out) { out.string(value); }, put_nothing);
}

void MlperfLog::fact(const char* key, std::int64_t value) noexcept {
  line(
      kPoint, key, monotonic_ns(), [&](JsonStream& out) { out.integer(value); }, put_nothing);
}

void MlperfLog::fact(const char* key, double value) noexcept {
  line(
      kPoint, key, monotonic_ns(), [&](JsonStream& out) { out.number(value); }, put_nothing);
}

void MlperfLog::fact_of_cache(bool is_cleared) noexcept {
  line(
      kPoint, "cache_clear", monotonic_ns(), [&](JsonStream& out) { out.boolean(is_cleared); }, put_nothing);
}

void MlperfLog::place_line(const char* type, const char* key, const Place& place) noexcept {
  line(type, key, monotonic_ns(), put_null, [&](JsonStream& out) { put_place(out, place); });
}

void MlperfLog::begin_init(std::int64_t began_ns) noexcept {
  line(kStart, "init_start", began_ns, put_null, put_nothing);
}

void MlperfLog::begin_run() noexcept {
  line(kStop, "init_stop", monotonic_ns(), put_null, put_nothing);
  line(kStart, "run_start", monotonic_ns(), put_null, put_nothing);
}

void MlperfLog::begin_block(const Place& place) noexcept {
  if (!in_block_) place_line(kStart, "block_start", place);
  in_block_ = true;
}

void MlperfLog::end_block(const Place& place) noexcept {
  if (in_block_) place_line(kStop, "block_stop", place);
  in_block_ = false;
}

void MlperfLog::begin_evaluation(const Place& place) noexcept {
  end_block(place);
  place_line(kStart, "eval_start", place);
}

void MlperfLog::end_evaluation(const Place& place, const char* figure, double value) noexcept {
  place_line(kStop, "eval_stop", place);
  line(
      kPoint, "eval_accuracy", monotonic_ns(), [&](JsonStream& out) { out.number(value); },
      [&](JsonStream& out) {
        put_place(out, place);
        out.key("metric").string(figure);
      });
}

// On the disk before anybody is told that the run is over.
void MlperfLog::end_run(bool is_whole) noexcept {
  if (!file_.is_open()) return;
  const char* const status = is_whole && !is_resumed_ ? "success" : "aborted";
  line(kStop, "run_stop", monotonic_ns(), put_null, [&](JsonStream& out) { out.key("status").string(status); });
  failed_ = ::fdatasync(file_.number()) != 0 || failed_;
}

}  // namespace bascule
