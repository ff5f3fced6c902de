// SPDX-License-Identifier: Apache-2.0
// The embeddings of the texts of a file, kept in an index beside it and refreshed by what changed; and the nearest of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "src/base/nearest.h"
#include "src/base/span.h"
#include "src/runtime/threads.h"

namespace bascule {

// A file of texts: of .jsonl lines as index/relevance.h reads them, with or without "_id"; else a text a line. Empty
// lines are left out, and of equal texts all but the first.
//
// The index is a safetensors file: "embeddings" (texts, width), "digests" (texts) and "places" (texts, 2) of their
// lines. Its metadata say which model made it, and the size, time of change and inode of the file then. While these are
// the same the file is not read but for the texts that are shown; else its lines are read, and texts are embedded that
// the index lacks. Another model's index is made anew. It is written beside and renamed.

struct FoundText {
  std::string text;
  std::string name;  // its "_id", else the file and the line's number
};

// Of a line in its file: the byte that it begins with, and its number, from 1.
struct TextPlace {
  std::int64_t offset = 0, line = 0;
};

// Texts that are embedded together.
inline constexpr std::size_t kTextsAtOnce = 4096;

class TextIndex {
 public:
  // Is told once, before anything is embedded, how many bytes are taken beside the index's file: embeddings of new
  // texts, what is kept of every text, the texts that are embedded together, and scores of a search.
  using Plan = std::function<void(std::size_t bytes)>;
  // Appends the embeddings of at most kTextsAtOnce texts, each of the width.
  using Embed = std::function<void(const std::vector<std::string>& texts, std::vector<float>* embeddings)>;
  using Say = std::function<void(const std::string& line)>;
  struct Source {
    std::string file;    // of texts
    std::string index;   // the index's path
    std::string model;   // what makes an embedding, all that matters for its bits
    std::int64_t width;  // of an embedding
  };

  // Opens the index, or makes or refreshes it with `embed`. say: for people, what was done. Throws Error: that of
  // `plan`; kData for the file, and for an index that is none; kDisk where it cannot be written.
  TextIndex(Source source, const Plan& plan, const Embed& embed, const Say& say);
  ~TextIndex();
  TextIndex(TextIndex&&) = delete;
  TextIndex& operator=(TextIndex&&) = delete;

  std::int64_t texts() const { return texts_; }
  // The `top` texts whose embeddings have the largest product with `query`, best first; of equal ones the first of the
  // file. Reads the embeddings once, at the speed of memory, and takes eight bytes for each text. Throws Error kData
  // for products that are no numbers.
  std::vector<Neighbour> nearest(Span<const float> query, std::size_t top, GemmLibrary& products,
                                 Threads& threads) const;
  FoundText text(std::int64_t row) const;

 private:
  class Mapping;
  void open();
  void refresh(const Plan& plan, const Embed& embed, const Say& say);

  const Source source_;
  std::string state_;  // of the file
  std::unique_ptr<Mapping> mapping_;
  std::int64_t texts_ = 0;
  const float* embeddings_ = nullptr;  // (texts, width)
  const std::int64_t* digests_ = nullptr;
  const TextPlace* places_ = nullptr;
  bool is_current_ = false;  // the file is as it was when the index was written
};

}  // namespace bascule
