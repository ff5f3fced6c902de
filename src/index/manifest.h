// SPDX-License-Identifier: Apache-2.0
// The index of a data set, and the tables that it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/span.h"
#include "src/index/data_files.h"

namespace bascule {

// The tables that a manifest's index is made of: as views, wherever they lie, and as vectors while they are being
// made. Beside the texts' and names' own bytes a row costs 16 bytes (8 more for each further text, one with labels, two
// where they are names, or of more than 256 classes, or four where they are values; or eight, and two for each word,
// where words have tags) and a picture 12 in folders, a row 32 in shards.

// Where a picture lies within shards.
struct PicturePlace {
  std::uint64_t offset = 0;  // of its first byte in the shard
  std::uint32_t bytes = 0;
  std::uint32_t shard = 0;
};

// Each array is listed here alone.
template <template <typename> typename Array>
struct ManifestArrays {
  Array<std::uint64_t> text_end;       // per text of a row; a text begins where the one before ends
  Array<std::uint32_t> image_of_row;   // per row; in shards empty: row i shows picture i
  Array<std::uint32_t> line;           // per row: line of its manifest; in shards empty
  Array<unsigned char> labels;         // per row one byte, two, or four of a float; or empty
  Array<std::uint64_t> name_end;       // per picture; a name begins where the one before ends
  Array<PicturePlace> places;          // per picture, in shards; else empty
  Array<std::uint32_t> picture_bytes;  // per picture, in folders once they are measured; else empty
  Array<std::uint64_t> file_end;       // per manifest: rows up to its end; in shards empty
  Array<char> texts;                   // all texts, end to end
  Array<char> names;                   // all pictures' paths or members, each with its zero byte
  Array<char> class_names;             // each with its zero byte
  Array<std::uint64_t> tag_end;        // per row of words; its tags begin where those of the row before end
  Array<std::uint16_t> tags;           // per word

  // In the order of an index file.
  auto all() {
    return std::tie(text_end, image_of_row, line, labels, name_end, places, picture_bytes, file_end, texts, names,
                    class_names, tag_end, tags);
  }
  auto all() const {
    return std::tie(text_end, image_of_row, line, labels, name_end, places, picture_bytes, file_end, texts, names,
                    class_names, tag_end, tags);
  }
};

template <typename Element>
using ArrayView = Span<const Element>;
template <typename Element>
using OwnArray = std::vector<Element>;
using ManifestTables = ManifestArrays<ArrayView>;

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

struct ManifestStore : ManifestArrays<OwnArray> {
  ManifestTables tables() const {
    return std::apply([](const auto&... own) { return ManifestTables{own...}; }, all());
  }
};

// The index of a data set: which picture, which text, which label each row has. Read once before the seal from
// .jsonl, .json, .csv, .tsv, folders with metadata.jsonl or metadata.csv, or tar shards; afterwards constant, and
// reading a row allocates nothing. Rows of several files follow each other in the order of the files. Large indexes are
// mapped from a cache file: open_manifest.h.
//
// Shards are tar files as WebDataset has them, "shard-{000..127}.tar": the members of a sample stand together and share
// the path up to the first dot of the base name, which is the sample's key; what follows, in any case of letters, says
// what a member is.
//   picture   jpg, jpeg, png or webp; with another image_column than "image", the member of that ending
//   caption   the member whose ending is caption_column; else .txt, if that is "caption"; else the string of that name
//             in .json. One line break at the end of a text member is left out.
//   label     only with label_column: the member of that ending, else the value of that name in .json, else .cls
// The second text of a pair is found as the caption is, but never in .txt.
// Other members, members without an ending and hidden ones are skipped.
//
// A folder without metadata.jsonl or metadata.csv holds one folder for each class, and these hold pictures, in folders
// of their own or not. Rows are in the order of the paths' bytes.
//
// In memory a row costs 16 bytes and its text, one more with labels (two beyond 256 classes, or with names; four where
// they are values; 8, a byte and two for each word, where words have tags), 8 and the text for each further text, and a
// picture 12 bytes and its path with a zero byte; in shards a row costs 32 bytes, its texts and the name of its
// picture.

// Whether numbers in the column of labels are values, which any number is, in place of classes.
enum class LabelValues {
  kNone,
  kIfDecimal,  // all of them where one has a decimal point or an exponent: 3.0 is a value, 3 a class
  kAlways
};

struct RefusedRows;

// Empty: rows have no picture, text or label.
struct ManifestColumns {
  std::string image = "image";  // in a folder that lists its pictures this default means "file_name", as Hugging Face
                                // has it; empty: rows have no picture, and image_path is empty (not in shards)
  std::string text = "caption";
  std::string label;
  std::int64_t classes = 2;      // labels are numbers from 0 on, below this, which is at most kMostClasses
  std::string second_text = "";  // of pairs; empty: rows have one text
  std::vector<std::string> further_texts = {};  // behind those of a pair: data.negative_columns
  bool named_classes = false;  // labels may be names instead, which the manifest numbers; see set_classes()
  LabelValues values = LabelValues::kNone;
  const char* second_text_setting = "text_pair_column";  // as text_setting
  const char* text_setting = "caption_column";           // the key of [data] that names the column, for messages
  // The column of the text is a list of words, that of labels a list of their tags: class numbers or names. In .jsonl
  // and .json alone.
  bool words = false;
  // Rows of the file may have no labels at all: the column, or the second text, may be missing, and a class of -1
  // or null is none.
  bool optional_labels = false, optional_second_text = false;
  RefusedRows* refused = nullptr;  // takes rows that are refused, which the manifest lacks; null: the first is thrown
};

inline constexpr std::int64_t kMostClasses = 65536;

struct ManifestRow {
  std::string_view image_path;  // relative to Manifest::folder() unless absolute, and as written where all manifests
                                // lie in one folder; data() ends with a zero byte. In shards: the member's name
  std::string_view text;        // UTF-8; of words all of them, each followed by a zero byte
  std::optional<std::string_view> second_text;  // of a pair; those behind it: Manifest::text()
  int label = -1;                               // the number of its class; -1 without a label column, and of values
  float value = 0.0f;                           // the label where labels are values, or the number of its class
  std::int64_t image_id = 0;  // equal for rows with the same picture; 0 .. pictures() - 1 in order of first use;
                              // 0 in rows without pictures
};

// Nothing but spaces, tabs and line breaks, or nothing at all.
inline bool is_empty_text(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\n\v\f\r") == std::string_view::npos;
}

// Takes the first word off the text of a row of words, which has one.
inline std::string_view take_word(std::string_view* words) noexcept {
  const std::size_t end = words->find('\0');
  const std::string_view word = words->substr(0, end);
  words->remove_prefix(end == std::string_view::npos ? words->size() : end + 1);
  return word;
}

class IndexMapping;
struct Relevance;

// Pictures that lie in the data and belong to no row: in folders of classes of other kinds than JPEG, PNG and WebP, or
// beside these folders; in shards of samples that nothing else is read of.
struct UnreadPictures {
  std::int64_t count = 0;
  std::string why, what_to_do;  // for people

  std::string text() const;  // "3 pictures not read: ..."
};

// How pictures whose file does not exist are treated. kAreKept: those that are no file, too.
enum class MissingPictures { kAreRefused, kAreSkipped, kAreKept };

class Manifest {
 public:
  // Throws Error (kData) naming file and line, or shard and member: no file, no rows, a column missing, a value that is
  // no string, no UTF-8 or no label, malformed JSON or CSV, a shard that is cut short or damaged, a member without its
  // partner, two of the same name.
  static Manifest load(const DataFiles& files, const ManifestColumns& columns);
  // The files that find_data_files() finds.
  static Manifest load(const PathsSetting& paths, const ManifestColumns& columns);
  ~Manifest();
  Manifest(Manifest&& other) noexcept;
  Manifest& operator=(Manifest&& other) noexcept;

  std::int64_t rows() const noexcept {
    return static_cast<std::int64_t>(used_rows()) + static_cast<std::int64_t>(taken_out_.size());
  }
  // Different pictures, told apart by ManifestRow::image_path; in shards, one a row.
  std::int64_t pictures() const noexcept {
    return static_cast<std::int64_t>(used_rows_ > 0 ? used_pictures_ : figures_.pictures);
  }
  bool has_pictures() const noexcept { return figures_.pictures > 0; }
  bool has_labels() const noexcept { return !tables_.labels.empty(); }
  // Whether rows are words with a tag each. Then what is said of labels below is said of tags.
  bool has_tags() const noexcept { return !tables_.tag_end.empty(); }
  // The rows have no labels or targets: the values in their place in a batch mean nothing.
  bool is_unlabelled() const noexcept { return is_unlabelled_; }
  void set_unlabelled() noexcept { is_unlabelled_ = true; }
  // Whether no row has a label (each -1 where they are values), or no word a tag.
  bool lacks_labels() const noexcept;
  // Whether every row has a second text for which is_empty_text().
  bool lacks_second_texts() const noexcept;
  // The number of the class of a row's word.
  int tag(std::int64_t row, std::size_t word) const noexcept;
  bool has_values() const noexcept { return tables_.labels.size() == sizeof(float) * figures_.rows; }
  // In order of first use; none where labels are numbers.
  const std::vector<std::string>& class_names() const noexcept { return class_names_; }
  // From here on the label of a row is the number that stands here in the place of its name. As many as class_names().
  void set_classes(std::vector<std::int32_t> numbers) { class_numbers_ = std::move(numbers); }
  const UnreadPictures& unread() const noexcept { return unread_; }
  // The first row with a label of that place of class_names(); before set_classes().
  std::int64_t first_row_of_class(std::size_t name) const noexcept;
  // These need rows with labels that are classes.
  int largest_label() const noexcept;
  bool has_one_label() const noexcept;
  // The first row with a label from `least` on; -1: none.
  std::int64_t first_row_of_label(int least) const noexcept;
  bool has_pairs() const noexcept { return texts_of_a_row() > 1; }
  std::size_t texts_of_a_row() const noexcept { return tables_.text_end.size() / figures_.rows; }
  ManifestRow row(std::int64_t row) const noexcept;
  // The row's text in that place among its texts.
  std::string_view text(std::int64_t row, std::size_t place) const noexcept;
  std::int64_t image_id(std::int64_t row) const noexcept;
  std::string_view image_path(std::int64_t image_id) const noexcept;
  std::size_t longest_text_bytes() const noexcept { return figures_.longest_text_bytes; }
  // Which of the texts are queries and documents (relevance.h); null: nothing has been said of that.
  const Relevance* relevance() const noexcept { return relevance_.get(); }
  void set_relevance(Relevance relevance);

  // From here on the manifest has its first rows alone, where it has more than these (at least 1), and their pictures
  // and classes. Before anything is done to rows: measure_pictures(), take_out(), find_empty_texts(), set_classes().
  void keep_first(std::int64_t rows);

  // Finds the rows that have a text for which is_empty_text(). For pairs.
  void find_empty_texts();
  bool has_empty_text(std::int64_t row) const noexcept;
  // Ascending.
  const std::vector<std::int64_t>& rows_with_empty_text() const noexcept { return empty_texts_; }

  // From here on the rows are numbered as they were before these were taken out of the file: rows() counts them, and
  // the rows behind them keep their numbers. row() must not be used for them. rows: ascending, each once.
  void take_out(std::vector<std::int64_t> rows);
  bool is_taken_out(std::int64_t row) const noexcept;
  const std::vector<std::int64_t>& taken_out() const noexcept { return taken_out_; }

  // For people: the one file, or what was written for several.
  const std::string& name() const noexcept { return files_.name; }
  // The folder that relative picture paths start from; of no use in shards.
  const std::string& folder() const noexcept { return files_.folder; }
  // Paths of the shards in order; empty where pictures are files.
  const std::vector<std::string>& shards() const noexcept { return files_.shards; }
  // Where a picture lies; only in shards.
  PicturePlace place(std::int64_t image_id) const noexcept;
  // The files of the rows, in order.
  const DataFiles& files() const noexcept { return files_; }
  // Which of files().manifests a row was written in; of no use in shards.
  std::size_t file_number(std::int64_t row) const noexcept { return number_of_file(place_of(row)); }
  // Where a row was written, for messages: "train.jsonl:17", "shard-003.tar". Allocates.
  std::string where(std::int64_t row) const;
  // Where a picture is, for people: a normalised path, or "shard-003.tar/000017.jpg". Allocates.
  std::string picture_location(std::int64_t image_id) const;
  // Throws Error kData: the row's picture cannot be used.
  [[noreturn]] void refuse_picture(std::int64_t row, const std::string& problem,
                                   const std::string& what_to_do = "") const;

  // Asks the size of every picture once, so that what follows needs no system call; in shards they are known. Before
  // the seal. Throws Error (kData) naming the first row whose picture is no file or, unless such rows are skipped, is
  // missing; also where all are.
  void measure_pictures(MissingPictures missing = MissingPictures::kAreRefused);
  // In measured files: rows whose picture is missing, which counts as one of 0 bytes.
  bool is_missing(std::int64_t row) const noexcept;
  std::int64_t missing_pictures() const noexcept { return static_cast<std::int64_t>(missing_.size()); }
  bool is_measured() const noexcept {
    return !has_pictures() || !tables_.places.empty() || !tables_.picture_bytes.empty();
  }
  // Only of measured pictures, as the next one.
  std::int64_t picture_bytes(std::int64_t image_id) const noexcept;
  std::size_t largest_picture_bytes() const noexcept { return figures_.largest_picture_bytes; }

  // XXH3 of the manifest file's bytes; of several, of their digests; of shards, of the names, places and sizes of their
  // members and the contents of captions and labels.
  std::uint64_t digest() const noexcept { return figures_.digest; }
  // XXH3 of digest() and the size of every picture in order of image id (a picture that cannot be asked counts as 2^64
  // - 1). Unless measured, one system call a picture: before the seal or after the last step.
  std::uint64_t data_digest() const;
  // XXH3 of all texts.
  std::uint64_t texts_digest() const noexcept { return figures_.texts_digest; }
  // Memory that the index takes, or will take once it is this process's own.
  std::size_t resident_bytes() const noexcept;
  // Where the index is mapped from a cache file, reads all of it: whether it is what was written. Before the seal.
  bool is_whole() const;
  // Where the index is mapped from a cache file, reads it into memory of this process and checks all of it: from then
  // on nothing that happens to the file matters. False: it is not what was written, the file has been removed, and this
  // manifest is of no use. Before the seal. Throws Error (kMemory).
  bool read_into_memory();

 private:
  friend class ManifestBuilder;
  friend class IndexFile;
  friend class ManifestPart;
  Manifest();
  std::size_t used_rows() const noexcept { return used_rows_ > 0 ? used_rows_ : figures_.rows; }
  std::size_t place_of(std::int64_t row) const noexcept;
  int label_of(std::size_t place) const noexcept;
  std::size_t count_labels(std::size_t place) const noexcept;
  int label_of(std::size_t place, std::size_t word) const noexcept;
  int class_number(std::size_t label) const noexcept;
  // The first of so many places that has a label for which the test holds; their count: none has.
  template <typename Test>
  std::size_t first_place(std::size_t count, const Test& test) const noexcept;
  const std::string& shard_of(std::int64_t image_id) const noexcept;
  std::size_t number_of_file(std::size_t place) const noexcept;
  void find_class_names();
  std::uint64_t digest_of_sizes() const;

  DataFiles files_;
  ManifestTables tables_;
  ManifestFigures figures_;
  UnreadPictures unread_;
  bool is_unlabelled_ = false;
  std::vector<std::string> class_names_;  // of tables_
  std::vector<std::int32_t> class_numbers_;
  std::size_t used_rows_ = 0, used_pictures_ = 0;  // the first of the tables'; 0 rows: all
  std::vector<std::int64_t> taken_out_;
  std::vector<std::int64_t> empty_texts_;  // rows, ascending
  std::vector<std::int64_t> missing_;      // pictures, ascending
  std::unique_ptr<const Relevance> relevance_;
  // The owner of the tables: one of these.
  std::unique_ptr<ManifestStore> store_;
  std::unique_ptr<IndexMapping> mapping_;
};

// The Error for a manifest whose index is not what was written: read_into_memory() has removed the file.
Error damaged_index(const Manifest& manifest);

}  // namespace bascule
