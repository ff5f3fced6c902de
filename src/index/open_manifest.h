// SPDX-License-Identifier: Apache-2.0
// Opening a manifest, and data sets of kinds that are not read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/index/manifest.h"

namespace bascule {

// Opening a manifest with its index kept between runs. Reading millions of rows takes seconds; mapping what was read
// takes milliseconds. A manifest of fewer rows than IndexCache::smallest_rows leaves no file anywhere.
//
// - An index is a file of the user's cache folder (beside neither data, which may be read-only, nor output_dir, which
//   another run of the same data does not share), named by a hash of the manifests' paths and the columns. It may be
//   removed at any time.
// - It counts only while manifests or shards have the size, time of change and inode that they had when it was made;
//   then it is made anew. Sizes of pictures are those of that moment: after exchanging pictures, touch the manifest.
// - It is written beside, synced and renamed, by one process at a time: whoever finds another at work goes on without.
// - What is opened is checked in time that does not depend on its size: checksum of the header, length of the file,
//   bounds and counts of the tables. A file that fails is made anew. Every access stays within the tables whatever they
//   hold.
// - Until then the file is mapped, and whoever may write to it can change what is read, or end the process by cutting
//   it short. Manifest::read_into_memory() reads it into memory of the process and checks all of it: called before the
//   seal, and before anything that is derived from the texts is kept (longest_text() insists), it makes sure that what
//   a run trains on is what the source said, and that nothing that happens to the file afterwards reaches the run.

struct IndexCache {
  std::string folder;  // empty: nothing is kept
  std::int64_t smallest_rows = 100'000;
};

// A digest of sizes, times of change and inodes of manifests or shards: whether an index was made of them.
// Nothing for folders of classes, and where a file is missing, which its reader says.
std::optional<std::uint64_t> state_digest(const DataFiles& files);

// $XDG_CACHE_HOME/bascule, else $HOME/.cache/bascule, else none.
IndexCache user_index_cache();

struct OpenedManifest {
  Manifest manifest;  // measured
  std::string note;   // for people, about what happened to the cache file; mostly empty
};

// Before the seal. Throws Error as Manifest::load() and measure_pictures() do; that an index cannot be kept is told in
// the note. An index with missing pictures is not kept: they may be there at the next start. most_rows: the manifest
// keeps its first rows alone (Manifest::keep_first), and an index that is made for them is not kept either; 0: all.
OpenedManifest open_manifest(const PathsSetting& paths, const ManifestColumns& columns, const IndexCache& cache,
                             MissingPictures missing = MissingPictures::kAreRefused, std::int64_t most_rows = 0);

// Data sets that are not read here: Parquet and Arrow files, what `save_to_disk` wrote, and names of the hub.

// Throws Error kData, which names the tool that converts it, where the path of a split is a data set of these forms or
// missing.
void refuse_foreign_data(const std::string& path);

// A share of a manifest's rows that is held out for validation. A row is held out by the digest of what it is about:
// the bytes of its picture, or else its text. So rows of one picture stay together, and rows that are added move no
// others. Before the seal.

// Whether something with this digest is held out. share: 0 to less than 1.
bool is_held_out(std::uint64_t digest, double share);

// By row. The manifest is measured. Throws Error{kData} as picture_digests().
std::vector<bool> held_out_rows(const Manifest& manifest, double share, const IndexCache& cache);

// Some rows of a manifest, ascending and at least one, as a manifest of their own: with the pictures that they show,
// numbered anew, and with all classes of the whole. Nothing is taken out of the whole.
Manifest part_of(const Manifest& whole, const std::vector<std::int64_t>& rows);

}  // namespace bascule
