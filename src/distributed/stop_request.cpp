// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/stop_request.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/error.h"
#include "src/base/open_files.h"

namespace bascule {

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
