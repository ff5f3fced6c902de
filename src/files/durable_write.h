// SPDX-License-Identifier: Apache-2.0
// Writing files and folders so that they are whole or absent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/digest.h"
#include "src/base/status.h"

namespace bascule {

// Files and folders that are either whole or absent, whatever kills the program: written under a temporary name,
// synced, renamed, and the folder that holds the name synced. Temporary names are ".tmp-bascule-NAME", and
// ".tmp-bascule-NAME.deleting" for folders on their way out: no name that somebody would give a copy of theirs.
// remove_leftovers() clears away what a killed program left.
//
// Everything here but the functions that say so is for use after the seal: noexcept, no allocation, fixed path buffers.

// A path of at most 4095 bytes in a fixed buffer. If more is appended it stays unusable: every call with it then fails
// with ENAMETOOLONG.
class PathBuffer {
 public:
  PathBuffer() noexcept { text_[0] = '\0'; }
  explicit PathBuffer(std::string_view text) noexcept : PathBuffer() { append(text); }

  PathBuffer& append(std::string_view text) noexcept;
  PathBuffer& append(std::int64_t number) noexcept;
  void cut(std::size_t length) noexcept;  // back to a former length()

  std::size_t length() const noexcept { return length_; }
  const char* c_str() const noexcept { return text_; }
  std::string_view text() const noexcept { return {text_, length_}; }

 private:
  static constexpr std::size_t kCapacity = 4096;
  char text_[kCapacity];
  std::size_t length_ = 0;
  bool too_long_ = false;
};

// Told about every MiB at most that was written or has reached the disk, then with 0 bytes: for heartbeats. May be
// null.
struct WriteProgress {
  void (*tell)(void* context, std::int64_t bytes) noexcept = nullptr;
  void* context = nullptr;
};

// A file being written. Closed without syncing if it goes out of scope before sync_and_close().
class OutputFile {
 public:
  OutputFile() noexcept = default;
  explicit OutputFile(Descriptor empty) noexcept : descriptor_(std::move(empty)) {}  // a file that was opened to write

  Status create(const char* path) noexcept;  // once; empties an existing file
  // Appends, whatever signals come. The disk is set to work at once, and a few MiB behind it is waited for: so a file
  // of gigabytes neither fills the memory with what is still to be written nor ends in one long silent sync.
  Status write(const void* data, std::size_t bytes, WriteProgress progress = {}) noexcept;
  Status sync_and_close(WriteProgress progress = {}) noexcept;
  // The digest of all data written.
  std::uint64_t digest() const noexcept { return digest_.value(); }

 private:
  Status settle(std::int64_t until, WriteProgress progress) noexcept;

  Descriptor descriptor_;
  Digest digest_;
  std::int64_t written_ = 0, begun_ = 0, settled_ = 0;  // bytes; the disk works on, and has finished, so many
};

// All: kDiskFailed with errno in detail[0] on failure.
Status write_all(int descriptor, const void* data, std::size_t bytes) noexcept;  // whatever signals come
// At the end of a regular file that was opened with O_APPEND. A write that fails leaves nothing, so that what is
// appended later does not stand behind a part.
Status append_all(int descriptor, const void* data, std::size_t bytes) noexcept;
Status make_folder(const char* path) noexcept;  // one level; it may exist
Status sync_folder(const char* path) noexcept;
// A file at its final name, not atomically: for files within a folder that is published as a whole. Synced.
// digest: of the content; may be null.
Status write_synced(const char* path, std::string_view content, std::uint64_t* digest = nullptr) noexcept;
// A file with this content, atomically: beside, sync, rename, sync the folder. A failure leaves nothing beside.
Status write_durably(const char* folder, std::string_view name, std::string_view content) noexcept;
// Renames folder/.tmp-bascule-NAME, written and synced by the caller, to folder/NAME and syncs the folder.
Status publish_file(const char* folder, std::string_view name) noexcept;
// Syncs folder/.tmp-bascule-NAME and renames it to folder/NAME. If that exists already the two change places in one
// instant and the old one is removed.
Status publish_folder(const char* parent, std::string_view name) noexcept;
// Calls `visit` with the name of every entry but . and .., in no order. It stops at the first status that is not ok.
Status visit_entries(const char* folder, Status (*visit)(void* context, const char* name) noexcept,
                     void* context) noexcept;
// Removes a file or a folder with all it holds (links are removed, not followed). Absent: ok, and so is what somebody
// else removes meanwhile.
Status remove_tree(const char* path) noexcept;
// Like remove_tree, but for a folder that must not be taken for whole in between: renamed to
// .tmp-bascule-NAME.deleting first.
Status remove_folder(const char* parent, std::string_view name) noexcept;

// Whether a name is one that only a killed program leaves: ".tmp-bascule-*".
bool is_leftover(std::string_view name) noexcept;

// --- Before the seal ---

// Throws Error{kDisk} for a status that is not ok: "where: what: No space left on device".
void throw_if_failed(const Status& status, const std::string& where, const std::string& what);
// Names of what lies directly in the folder, sorted. An absent folder is empty.
std::vector<std::string> folder_entries(const std::string& folder);
// Whether leftovers lie directly under `folder`.
bool has_leftovers(const std::string& folder);
// Removes those that do.
void remove_leftovers(const std::string& folder);
// Creates the folder and its parents, each synced.
void make_folders(const std::string& path);
// write_durably() at a path. Replaces regular files only. Throws Error{kDisk} with the path and the system's reason.
void write_output_file(const std::string& path, const std::string& content);

// How files are called while they are being written: what a killed program leaves is known by it, and cleared away.

// .tmp-bascule-config.json becomes config.json. Long enough that nobody else's file begins so.
inline constexpr char kTemporaryPrefix[] = ".tmp-bascule-";

}  // namespace bascule
