// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/agreement.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/check.h"
#include "src/base/error.h"

namespace bascule {
namespace {

constexpr std::size_t kCode = 0, kDetail = 1, kSignal = 3, kSums = 4;
static_assert(kSums + RankAgreement::kMostSums <= kExchanged);

}  // namespace

RankAgreement::RankAgreement(Group& group) : group_(group), all_(static_cast<std::size_t>(group.size()) * kExchanged) {}

Status RankAgreement::reach(const Status& own, Span<double> sums, int* signal) noexcept {
  BASCULE_CHECK(sums.size() <= kMostSums);
  double mine[kExchanged] = {static_cast<double>(own.code), static_cast<double>(own.detail[0]),
                             static_cast<double>(own.detail[1]), static_cast<double>(signal != nullptr ? *signal : 0)};
  std::copy(sums.begin(), sums.end(), mine + kSums);
  if (!group_.exchange({mine, kExchanged}, Span<double>(all_))) return {StatusCode::kRankFailed, {-1, 0}};
  std::fill(sums.begin(), sums.end(), 0.0);
  if (signal != nullptr) *signal = 0;
  Status first_bad;
  for (int rank = group_.size() - 1; rank >= 0; --rank) {
    const double* const theirs = all_.data() + static_cast<std::size_t>(rank) * kExchanged;
    const StatusCode code = static_cast<StatusCode>(static_cast<std::int32_t>(theirs[kCode]));
    const Status said = {code,
                         {static_cast<std::int64_t>(theirs[kDetail]), static_cast<std::int64_t>(theirs[kDetail + 1])}};
    if (code == StatusCode::kStopped || (code == StatusCode::kNotFinite && said.detail[1] != 0)) {
      first_bad = said;
    } else if (code != StatusCode::kOk) {
      first_bad = {StatusCode::kRankFailed, {rank, 0}};
    }
    if (signal != nullptr && theirs[kSignal] != 0.0) *signal = static_cast<int>(theirs[kSignal]);
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += all_[static_cast<std::size_t>(rank) * kExchanged + kSums + i];
  }
  return own.ok() ? first_bad : own;
}

StopRequest::StopRequest(const std::string& folder)
    : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!folder_.is_open())
    throw Error(ErrorKind::kDisk, folder, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno));
}

bool StopRequest::is_made() const noexcept {
  return folder_.is_open() && faccessat(folder_.number(), kStopRequestFile, F_OK, 0) == 0;
}

void make_stop_request(const std::string& folder) {
  const std::string path = folder + "/" + kStopRequestFile;
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open())
    throw Error(ErrorKind::kDisk, path, std::string("cannot be written: ") + std::strerror(errno),
                advice_for_open(errno));
}

void remove_stop_request(const std::string& folder) {
  const std::string path = folder + "/" + kStopRequestFile;
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return;
  throw Error(ErrorKind::kDisk, path, std::string("cannot be removed: ") + std::strerror(errno));
}

}  // namespace bascule
