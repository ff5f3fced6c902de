// SPDX-License-Identifier: Apache-2.0
// mlperf_log.txt: what a training run did and when, as lines that MLPerf's tools read:
//
//   :::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "seed", "value": 42,
//             "metadata": {"file": "src/logs/mlperf_log.cpp", "lineno": 90}}
//
// Keys, values and their order are those of mlperf-logging (mllog/constants.py, compliance_checker/training_6.1.0).
// Each line is one write(2) from a buffer inside the log. Times are of one clock that no change of the time of day
// moves: they never fall. A line that cannot be written is no reason to stop a run; failed() says so.
//
//   MlperfLog log = MlperfLog::begin(folder);   // before the seal
//   log.begin_init(began_ns); log.fact("seed", 42); log.begin_run();
//   log.begin_block(place); log.end_block(place);                     // sealed, from here on
//   log.begin_evaluation(place); log.end_evaluation(place, figure, 0.9);
//   log.end_run(true);
//
// begin() and go_on() throw Error{kDisk}; all else is noexcept and allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/descriptor.h"

namespace bascule {

inline constexpr char kMlperfLogFile[] = "mlperf_log.txt";

class MlperfLog {
 public:
  // How far training is: updates, training samples, epochs.
  struct Place {
    std::int64_t step = 0, samples = 0;
    double epoch = 0.0;
  };

  MlperfLog() = default;  // writes nothing: without the key, and in ranks other than 0

  // For a run from its beginning: replaces the log of an earlier start.
  static MlperfLog begin(const std::string& folder);
  // For a run that resumes after this update: adds to the lines of the earlier processes, first one that says so. Such
  // a run never ends as "success".
  static MlperfLog go_on(const std::string& folder, std::int64_t step);

  bool is_open() const { return file_.is_open(); }
  bool failed() const { return failed_; }  // a line is missing

  void fact(const char* key, std::string_view value) noexcept;
  void fact(const char* key, std::int64_t value) noexcept;
  void fact(const char* key, double value) noexcept;
  // mlperf-logging's cache_clear: whether this program emptied the system's cache of files.
  void fact_of_cache(bool is_cleared) noexcept;

  // began_ns: monotonic_ns() of then.
  void begin_init(std::int64_t began_ns) noexcept;
  // The end of the initialisation, and of the time that does not count.
  void begin_run() noexcept;
  // Training between evaluations. Beginning one that is under way, or ending none, does nothing.
  void begin_block(const Place& place) noexcept;
  void end_block(const Place& place) noexcept;
  // An evaluation on the validation data, with the weights of this update; ends a block.
  void begin_evaluation(const Place& place) noexcept;
  // figure: the name of the value.
  void end_evaluation(const Place& place, const char* figure, double value) noexcept;
  void end_run(bool is_whole) noexcept;

 private:
  static constexpr std::size_t kLineBytes = 8192;

  static MlperfLog open(const std::string& folder, int flags);
  // put_value(JsonStream&), put_metadata(JsonStream&): what the line says. at_ns: monotonic.
  template <typename Value, typename Metadata>
  void line(const char* type, const char* key, std::int64_t at_ns, Value put_value, Metadata put_metadata) noexcept;
  void place_line(const char* type, const char* key, const Place& place) noexcept;

  Descriptor file_;
  std::int64_t unix_offset_ns_ = 0;  // of the monotonic clock
  bool in_block_ = false, is_resumed_ = false, failed_ = false;
  char line_[kLineBytes] = {};
};

}  // namespace bascule
