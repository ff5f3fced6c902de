// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <string>
#include <system_error>

#include "src/base/open_files.h"
#include "src/base/shown_path.h"
#include "src/files/regular_file.h"
#include "src/loader/loader.h"
#include "src/loader/picture_reason.h"
#include "src/loader/worker.h"

namespace bascule {
namespace {

std::string media_text(std::int64_t reason) {
  if (reason == kTakenOut) return "its row was removed";
  if (reason == kFileMissing) return "the file is missing";
  if (reason == kEmptyText) return "its source or its target is empty";
  return picture_reason_text(reason);
}

std::string reason_of(const Status& status) {
  const std::int64_t reason = status.detail[1];
  if (status.code == StatusCode::kReadFailed) {
    if (reason == EFBIG)
      return "the file is larger than any file when the data was indexed; touch the manifest to rebuild its index";
    if (reason == ENODATA) return "the shard has become shorter since it was indexed";
    const std::string restore =
        "; restore it and run the same command again, or remove the row and choose another output_dir";
    if (reason == kNotAFile) return "is no longer a file" + restore;
    const std::string problem = std::generic_category().message(static_cast<int>(reason));
    if (reason == ENOENT) return problem + ", though it was there when the data was indexed" + restore;
    const std::string advice = advice_for_open(static_cast<int>(reason));
    return problem + (advice.empty() ? restore : "; " + advice);
  }
  if ((reason & kAllLeftOut) != 0) {
    return media_text(reason & ~kAllLeftOut) +
           "; no row of this file has a readable picture, so there is nothing to evaluate";
  }
  if ((reason & kGaveUp) == 0) {
    return media_text(reason) + "; " +
           (status_of_reason(reason) == MEDIA_ENGINE_PICTURE_TOO_LARGE
                ? "increase media_engine.memory_mib, make the picture smaller"
                : "repair it") +
           ", remove the row, or set data.on_bad_sample = \"skip\"";
  }
  return media_text(reason & ~kGaveUp) + ", and the samples tried before it failed too (up to " +
         std::to_string(kMostBadRows) + ")";
}

}  // namespace

Status all_left_out(const ReplacedSample& first) noexcept {
  return Status{StatusCode::kBadSample, {first.bad_row, first.reason | kAllLeftOut}};
}

std::string bad_picture_text(const ReplacedSample& replaced) { return media_text(replaced.reason); }

std::string describe(const Status& status, const Manifest& manifest) {
  switch (status.code) {
    case StatusCode::kBadSample:
    case StatusCode::kReadFailed: {
      const std::int64_t row = status.detail[0];
      if (manifest.is_taken_out(row)) return manifest.where(row) + ": " + reason_of(status);
      const ManifestRow sample = manifest.row(row);
      const std::string picture = !manifest.has_pictures()    ? ""
                                  : manifest.shards().empty() ? shown_path(manifest.picture_location(sample.image_id))
                                                              : std::string(sample.image_path);
      const std::string where = shown_path(manifest.where(row));  // in a folder of classes the picture itself
      return where + ": " + (picture == where || picture.empty() ? "" : picture + ": ") + reason_of(status);
    }
    case StatusCode::kLongText:
      return shown_path(manifest.where(status.detail[0])) + ": the text has more than " +
             std::to_string(status.detail[1]) +
             " tokens, the cached maximum of this data; remove the .lengths files from Bascule's cache folder and run "
             "the same command again";
    // Which picture the device had just then says nothing about the picture.
    case StatusCode::kDeviceFailed: return "media engine: " + media_text(status.detail[1]);
    case StatusCode::kEndOfEpoch: return "no more batches";
    default: return "not a status of the loader";
  }
}

}  // namespace bascule
