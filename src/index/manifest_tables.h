// SPDX-License-Identifier: Apache-2.0
// The tables that a manifest's index is made of: as views, wherever they lie, and as vectors while they are being
// made. Beside the texts' and names' own bytes a row costs 16 bytes (with labels one more, two where they are names, or
// of more than 256 classes, or four where they are values; or eight, and two for each word, where words have tags) and
// a picture 12 in folders, a row 32 in shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/span.h"

namespace bascule {

// Where a picture lies within shards.
struct PicturePlace {
  std::uint64_t offset = 0;  // of its first byte in the shard
  std::uint32_t bytes = 0;
  std::uint32_t shard = 0;
};

struct ManifestTables {
  Span<const std::uint64_t> text_end;       // per row, or two with pairs; a text begins where the one before ends
  Span<const std::uint32_t> image_of_row;   // per row; in shards empty: row i shows picture i
  Span<const std::uint32_t> line;           // per row: line of its manifest; in shards empty
  Span<const unsigned char> labels;         // per row one byte, two, or four of a float; or empty
  Span<const std::uint64_t> name_end;       // per picture; a name begins where the one before ends
  Span<const PicturePlace> places;          // per picture, in shards; else empty
  Span<const std::uint32_t> picture_bytes;  // per picture, in folders once they are measured; else empty
  Span<const std::uint64_t> file_end;       // per manifest: rows up to its end; in shards empty
  Span<const char> texts;                   // all texts, end to end
  Span<const char> names;                   // all pictures' paths or members, each with its zero byte
  Span<const char> class_names;             // each with its zero byte
  Span<const std::uint64_t> tag_end;        // per row of words; its tags begin where those of the row before end
  Span<const std::uint16_t> tags;           // per word
};

// Figures of the whole manifest.
struct ManifestFigures {
  std::uint64_t rows = 0;
  std::uint64_t pictures = 0;
  std::uint64_t longest_text_bytes = 0;
  std::uint64_t largest_picture_bytes = 0;  // of measured pictures
  std::uint64_t digest = 0;
  std::uint64_t data_digest = 0;   // of measured pictures
  std::uint64_t texts_digest = 0;  // XXH3 of texts and their ends
};

struct ManifestStore {
  std::vector<std::uint64_t> text_end;
  std::vector<std::uint32_t> image_of_row;
  std::vector<std::uint32_t> line;
  std::vector<unsigned char> labels;
  std::vector<std::uint64_t> name_end;
  std::vector<PicturePlace> places;
  std::vector<std::uint32_t> picture_bytes;
  std::vector<std::uint64_t> file_end;
  std::vector<char> texts;
  std::vector<char> names;
  std::vector<char> class_names;
  std::vector<std::uint64_t> tag_end;
  std::vector<std::uint16_t> tags;

  ManifestTables tables() const {
    return {text_end, image_of_row, line,  labels,      name_end, places, picture_bytes,
            file_end, texts,        names, class_names, tag_end,  tags};
  }
};

}  // namespace bascule
