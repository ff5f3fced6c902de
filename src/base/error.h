// SPDX-License-Identifier: Apache-2.0
// Errors before the seal, the advice of those that come of the limit of open files, and parts of messages.
#pragma once

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace bascule {

// Errors before the seal. Record, plan and seal throw Error and nothing else; main() catches in one place, prints one
// line and exits with the code of its kind. After the seal nothing throws: see status.h.
//
//   throw Error{ErrorKind::kData, "train.jsonl:17", "no column \"caption\"", "name it with data.caption_column"};

// The values are the program's exit codes.
enum class ErrorKind : int {
  kInternal = 1,       // a bug of ours
  kSettings = 2,       // settings file or command line
  kData = 3,           // data, model files or media device
  kMemory = 4,         // the plan does not fit, or the system refused
  kRank = 5,           // a rank of a parallel run failed
  kDisk = 6,           // writing failed: full, read-only, I/O error
  kNotAsRecorded = 7,  // the machine or the result is not what was recorded
};

// The advice for a write that failed with this errno.
const char* advice_for_disk(int error);

constexpr int exit_code(ErrorKind kind) { return static_cast<int>(kind); }

class Error : public std::exception {
 public:
  // where: file, "file:line:column", tensor or row; a path is shown from the current folder. what: the value found and
  // what is wrong with it; what_to_do: may be empty; reason: the errno of a file that could not be opened, else 0.
  Error(ErrorKind kind, const std::string& where, std::string what, std::string what_to_do = "", int reason = 0);

  ErrorKind kind() const { return kind_; }
  const std::string& where() const { return where_; }
  const std::string& problem() const { return problem_; }
  const std::string& what_to_do() const { return what_to_do_; }
  int reason() const { return reason_; }
  // "where: what; what_to_do" on one line: control characters become spaces, bytes that are no UTF-8 question marks.
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  ErrorKind kind_;
  std::string where_;
  std::string problem_;
  std::string what_to_do_;
  int reason_;
  std::string line_;
};

// The limit of open files, where an open runs into it.

// The advice for a file or folder that could not be opened or listed with this errno; "" where the reason is enough.
inline const char* advice_for_open(int error) {
  return error == EMFILE   ? "raise the limit of open files (ulimit -n)"
         : error == ENFILE ? "raise the limit of open files of this machine (sysctl fs.file-max)"
                           : "";
}

// Whether this errno says that there are too many open files: nothing about the file that was to be opened.
inline bool is_open_files_limit(int error) { return error == EMFILE || error == ENFILE; }

// Numbers with their nouns for messages: count_of(1, "row") is "1 row", count_of(1583, "row") "1583 rows". Allocates.

// The noun, or unless count is 1 its plural: with "es" after an s, else with an s. count: an integer.
template <typename Integer>
std::string noun_for(Integer count, const std::string& noun) {
  return count == 1 ? noun : noun + (noun.back() == 's' ? "es" : "s");
}

template <typename Integer>
std::string count_of(Integer count, const std::string& noun) {
  return std::to_string(count) + " " + noun_for(count, noun);
}

// Lists in a message: "a, b and c", "a or b". Allocates.

std::string and_list(const std::vector<std::string>& words);
std::string or_list(const std::vector<std::string>& words);

// Short texts with figures in them: formatted("%.2f s", 1.5) is "1.50 s".

// As printf writes it, cut after 511 bytes.
template <typename... Values>
std::string formatted(const char* form, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}

// The number that people write for a float: 4.2 for 4.2f, which as a double is 4.199999809265137. Allocates nothing.

// The shortest decimal text that reads back to the same float, as a double.
double as_written(float value) noexcept;

}  // namespace bascule
