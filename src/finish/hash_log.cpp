// SPDX-License-Identifier: Apache-2.0
#include "src/finish/judge_repeat.h"

#include <algorithm>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr std::size_t kNumbers = 4;  // of an update, before its hashes: its own, and its division

constexpr std::int64_t kMostHeaderBytes = std::int64_t{64} << 20;

InputFile open_log(const std::string& folder) {
  const std::string path = folder + "/" + kTensorHashesFile;
  if (!std::filesystem::exists(folder)) throw Error(ErrorKind::kData, folder, "there is no such folder");
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorKind::kData, folder, std::string("has no tensor hashes (") + kTensorHashesFile + ")",
                "run it with report.hash_steps = 1");
  }
  return InputFile(path);
}

std::string first_line(const InputFile& file) {
  std::string text;
  while (text.find('\n') == std::string::npos) {
    const auto done = static_cast<std::int64_t>(text.size());
    const std::int64_t part = std::min<std::int64_t>(65536, std::min(file.size(), kMostHeaderBytes) - done);
    if (part <= 0) throw Error(ErrorKind::kData, file.path(), "has no line that names its tensors", "run again");
    text.resize(text.size() + static_cast<std::size_t>(part));
    file.read(text.data() + done, done, static_cast<std::size_t>(part));
  }
  return text.substr(0, text.find('\n') + 1);
}

// Where the lists part; their common length where neither says so.
template <typename Value>
std::size_t first_that_differs(const std::vector<Value>& a, const std::vector<Value>& b) {
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

[[noreturn]] void refuse(const HashLog& a, const HashLog& b, const std::string& difference) {
  throw Error(ErrorKind::kData, b.path(),
              "is from a run of a different model than " + shown_path(a.path()) + ": " + difference,
              "compare two runs of one model");
}

// Throws unless both are of one model, of which both train the same tensors.
void check_same_model(const HashLog& a, const HashLog& b) {
  const auto name_in = [](const std::vector<std::string>& names, std::size_t place) {
    return place < names.size() ? names[place] : std::string("no tensor");
  };
  if (a.values() != b.values()) {
    const std::size_t place = first_that_differs(a.values(), b.values());
    refuse(a, b,
           "tensor " + std::to_string(place + 1) + " is " + name_in(b.values(), place) + ", not " +
               name_in(a.values(), place));
  }
  if (a.elements() != b.elements()) {
    const std::size_t place = first_that_differs(a.elements(), b.elements());
    refuse(a, b,
           name_in(a.values(), place) + " has " + std::to_string(b.elements()[place]) + " elements, not " +
               std::to_string(a.elements()[place]));
  }
  if (a.gradients() != b.gradients()) {
    const std::size_t place = first_that_differs(a.gradients(), b.gradients());
    refuse(
        a, b,
        "it trains " + name_in(b.gradients(), place) + " where the other run trains " + name_in(a.gradients(), place));
  }
}

}  // namespace

HashLog::HashLog(const std::string& folder) : file_(open_log(folder)) {
  const std::string line = first_line(file_);
  const Json header = parse_json(line, file_.path());
  const std::int64_t format = get_int(header, "format", file_.path());
  constexpr std::int64_t kWithoutChecksums = 2;
  if (format != kTensorHashesFormat && format != kWithoutChecksums)
    throw Error(ErrorKind::kData, file_.path(),
                "has format " + std::to_string(format) + ", which this program cannot read",
                "use the version of Bascule that wrote it");
  values_ = get_strings(header, "values", file_.path());
  elements_ = get_ints(header, "elements", file_.path());
  gradients_ = get_strings(header, "gradients", file_.path());
  samples_of_piece_ = get_int(header, kSamplesOfPiece, file_.path(), 0);
  begin_ = static_cast<std::int64_t>(line.size());
  const bool has_checksums = format != kWithoutChecksums;
  std::vector<std::uint64_t> update(kNumbers + values_.size() + gradients_.size() + (has_checksums ? 1 : 0));
  stride_ = static_cast<std::int64_t>(update.size() * sizeof update[0]);
  const std::int64_t count = (file_.size() - begin_) / stride_;  // an update that was cut short does not count
  for (std::int64_t i = 0; i < count; ++i) {
    file_.read(update.data(), at(static_cast<std::size_t>(i)), static_cast<std::size_t>(stride_));
    if (has_checksums && update.back() != update_checksum({update.data(), update.size()}))
      throw Error(ErrorKind::kData, file_.path(),
                  "is damaged: hashed update " + std::to_string(i + 1) + " does not have its checksum", "run again");
    const auto step = static_cast<std::int64_t>(update.front());
    if (step <= (steps_.empty() ? 0 : steps_.back()))
      throw Error(ErrorKind::kData, file_.path(), "is damaged: its updates are not in order", "run again");
    steps_.push_back(step);
  }
}

UpdateDivision HashLog::division(std::size_t place) const {
  std::int64_t numbers[kNumbers] = {};
  file_.read(numbers, at(place), sizeof numbers);
  return {numbers[1], numbers[2], numbers[3], samples_of_piece_};
}

std::vector<std::uint64_t> HashLog::hashes(std::size_t place) const {
  std::vector<std::uint64_t> hashes(values_.size() + gradients_.size());
  file_.read(hashes.data(), at(place) + static_cast<std::int64_t>(kNumbers * sizeof(std::int64_t)),
             hashes.size() * sizeof hashes[0]);
  return hashes;
}

Parting find_parting(const HashLog& a, const HashLog& b) {
  check_same_model(a, b);
  Parting parting;
  std::size_t other = 0;
  for (std::size_t place = 0; place < a.steps().size(); ++place) {
    const std::int64_t step = a.steps()[place];
    while (other < b.steps().size() && b.steps()[other] < step) ++other;
    if (other == b.steps().size()) break;
    if (b.steps()[other] != step) continue;
    if (parting.first_common == 0) parting.first_common = step;
    parting.last_common = step;
    const std::vector<std::uint64_t> of_a = a.hashes(place), of_b = b.hashes(other);
    if (of_a == of_b) {
      ++parting.equal_updates;
      continue;
    }
    parting.step = step;
    parting.division_of_a = a.division(place);
    parting.division_of_b = b.division(other);
    for (std::size_t i = of_a.size(); i-- > 0;) {
      if (of_a[i] == of_b[i]) continue;
      parting.is_gradient = i >= a.values().size();
      ++(parting.is_gradient ? parting.gradients : parting.values);
      parting.tensor = parting.is_gradient ? a.gradients()[i - a.values().size()] : a.values()[i];
    }
    return parting;
  }
  if (parting.first_common == 0)
    throw Error(ErrorKind::kData, b.path(), "has no hashed update in common with " + shown_path(a.path()),
                "use the same report.hash_steps");
  return parting;
}

}  // namespace bascule
