// SPDX-License-Identifier: Apache-2.0
#include "src/base/model_folder.h"

#include <sys/stat.h>

#include <cerrno>

#include "src/base/error.h"

namespace bascule {

void require_model_folder(const std::string& folder) {
  struct stat facts = {};
  if (::stat(folder.c_str(), &facts) == 0 || errno != ENOENT) return;
  throw Error(
      ErrorKind::kData, folder, "there is no such folder",
      "models are local folders, and Bascule downloads nothing: `hf download NAME --local-dir FOLDER` downloads "
      "one from the hub");
}

}  // namespace bascule
