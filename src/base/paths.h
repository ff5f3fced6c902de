// SPDX-License-Identifier: Apache-2.0
// Paths: as messages show them, absolute, by their endings; lists of shards; where this program is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace bascule {

// Paths in messages, seen from where the user stands. Not for use after the seal.

// `path`, or a text that begins with one ("/a/train.jsonl:17"): an absolute path becomes relative to the current folder
// where that makes it shorter; everything else stays as it is.
std::string shown_path(std::string_view path);

// "a.jsonl, b.csv"
std::string joined(const std::vector<std::string>& words, const char* separator = ", ");
// The same of the first ones, and how many follow: "a, b, c and 4 more".
std::string shown_list(const std::vector<std::string>& names, std::size_t most = 3);

// A path from the root. Links in it are not followed.

// Without `.`, `..` and a slash at its end: "runs/../demo/" is "/home/me/demo". Allocates.
std::string absolute_path(const std::string& path);

// Questions to the disk that do not throw: what cannot be looked at is not there. Links are followed. Before the seal.

bool is_there(const std::string& path);
bool is_file(const std::string& path);  // a regular one
bool is_folder(const std::string& path);
// The names of what lies directly in the folder, sorted. failure, unless null: why these are not all.
std::vector<std::string> names_in(const std::string& folder, std::error_code* failure = nullptr);

// The folder of a model, a tokenizer or a pipeline, which somebody may take for a name of the hub.

// Throws Error kData where the folder is missing.
void require_model_folder(const std::string& folder);

// Which files are pictures by their names. What is in them decides the format (media_engine.h).

// For messages.
inline constexpr char kPictureEndings[] = ".jpg, .jpeg, .png or .webp";

// ending: of a file's name, in lower case, without the dot.
inline bool is_picture_ending(std::string_view ending) noexcept {
  return ending == "jpg" || ending == "jpeg" || ending == "png" || ending == "webp";
}

// Likewise: of pictures of kinds that are not read.
inline bool is_other_picture_ending(std::string_view ending) noexcept {
  for (const char* const one :
       {"avif", "bmp", "gif", "heic", "heif", "jfif", "jp2", "jpe", "pbm", "pgm", "ppm", "tif", "tiff"}) {
    if (ending == one) return true;
  }
  return false;
}

// "a-{0,1}.tar,b.tar": a setting that lists tar shards, and the parts of the list. What each part stands for:
// src/index/glob.h. Before the seal.

// Whether a path means shards: it ends with .tar.
bool names_shards(std::string_view path);

// Cut at commas outside of braces, which stay. Views into `text`.
std::vector<std::string_view> list_parts(std::string_view text);

// Where this program is, for what is found beside it. Before the seal.

// The program's file, absolute and without links. Needs no /proc. Throws Error{kInternal}.
std::string program_file();
// The folder above the one that holds the program: where the tree begins that "bin/bascule" belongs to.
std::string tree_of_program();

// `path` from the folder `start`, without `.`, `..` and a slash at its end. An absolute path does not depend on
// `start`.
std::string path_from(const std::string& start, std::string_view path);

// `path` behind the folder `start`; ".." does not lead out of it, as it does not lead out of "/". An absolute path
// stays as it is. Without `start`: the relative path that does not lead out.
std::string path_inside(const std::string& start, std::string_view path);

}  // namespace bascule
