// SPDX-License-Identifier: Apache-2.0
// `bascule search FOLDER "text"`: the pictures nearest to a text, or the captions nearest to a picture, by the
// embeddings that a finished run left or among other pictures. Prints one line a hit (or one JSON document) and writes
// a page of pictures.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/isa.h"
#include "src/answer/search_page.h"

namespace bascule {

struct SearchArguments {
  std::string folder;   // a run's output_dir; with `images` any contrastive model will do
  std::string query;    // a text; or the path of a picture that exists
  std::string picture;  // a picture, whatever its name; then there is no query
  std::string images;   // search the pictures below this folder instead of the run's
  std::size_t top = 10;
  std::string html;  // "": search.html in the folder
  bool json = false;
};

// Searches; prints and writes nothing. Throws Error: kSettings for arguments that do not go together, kData for folders
// and pictures.
SearchAnswer search(const SearchArguments& arguments, Isa isa, int threads);

// {"query", "query_is_picture", "searched", "candidates", "results": [{"score", "path", "caption", "right"}],
// "refused": [{"path", "reason"}], "html"} on one line. `html`: the page's path.
std::string search_json(const SearchAnswer& answer, const std::string& html);

// Writes the page, prints the answer. Throws Error kDisk.
void show_answer(const SearchArguments& arguments, const SearchAnswer& answer);

// All of it. Returns the exit code, 0. Throws Error.
int search_command(const SearchArguments& arguments);

}  // namespace bascule
