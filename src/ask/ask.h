// SPDX-License-Identifier: Apache-2.0
// The commands that ask a finished model: classify, draw, embed, fill, generate, search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/answer/result_pages.h"
#include "src/json/value.h"
#include "src/settings/settings.h"

namespace bascule {

// The classes of a classifier's folder, of config.json's id2label; their numbers where there are no names. Throws Error
// kData.
std::vector<std::string> class_names(const std::string& folder, std::int64_t classes);

// `bascule classify FOLDER PICTURE...`: the classes that a classifier gives pictures; `bascule classify FOLDER "text"
// ["second text"]`: the classes, or the value, that a model gives texts, or the entities that it finds in them.

struct ClassifyArguments {
  std::string folder;               // a run's output_dir, or any folder with a model
  std::vector<std::string> inputs;  // files of pictures; or a text, or two, or "-"
  std::size_t top = 5;
  bool json = false;
};

// Prints the answers: of all pictures; of the one text, or pair, or with "-" alone of each line of standard input,
// where a tab stands between the texts of a pair. Returns the exit code: that of bad data if a picture was refused,
// after all others. Throws Error: kSettings for the arguments, kData for the folder, for texts that are not UTF-8 and
// for logits that are not finite. The lines before such a one are answered; a document then has their answers and the
// error, which is said, and its exit code returned.
int classify_command(const ClassifyArguments& arguments);

// `bascule draw FOLDER "prompt"`: one picture.

struct DrawArguments {
  std::string folder;                  // of a pipeline
  std::string output = "picture.png";  // the file to write, not in `folder`
  std::uint64_t seed = 42;
  std::int64_t noise = 0;             // its number under the seed
  DrawSettings draw;                  // with one prompt
  std::string precision = "float32";  // or "bf16"
  bool json = false;
};

// Writes the picture, and says so. Returns the exit code, 0, or 128 + the number of a signal that came. Throws Error:
// kSettings for the arguments, kData for the folder, kMemory, kDisk.
int draw_command(const DrawArguments& arguments, const volatile int* stop);

// `bascule embed FOLDER "text"`: the vectors of texts.

struct EmbedArguments {
  std::string folder;                 // of a run that has finished, of sentence-transformers, or of a body
  std::vector<std::string> texts;     // "-" alone: the lines of standard input
  std::optional<std::string> prompt;  // the name of one; none: the folder's default, if it has one
  std::string output;                 // a safetensors file to write; empty: the vectors are printed
  std::string precision = "float32";  // or "bf16"
  bool json = false;
};

// Prints a line of numbers for each text, or one JSON document; with a file its vectors are there alone, which is
// written whole or not at all. Returns the exit code. Throws Error: kSettings for the prompt's name, kData for the
// folder and for texts that are not UTF-8, kMemory, kDisk. The lines before such a one are answered unless there is a
// file; a document then has their answers and the error, which is said, and its exit code returned.
int embed_command(const EmbedArguments& arguments);

// `bascule fill FOLDER "text with [MASK]"`: the tokens that a masked language model puts in the place of masks.

struct FillArguments {
  std::string folder;  // a run's output_dir, or any folder with a model and its tokenizer
  std::string text;    // with the tokenizer's mask token, once or more
  std::size_t top = 5;
  bool json = false;
};

// Prints the answer: of each mask the tokens, as in the vocabulary in a document. Returns the exit code, 0. Throws
// Error kSettings for a text that has no mask, is too long or not UTF-8; kData for the folder.
int fill_command(const FillArguments& arguments);

// `bascule generate FOLDER "text"`: what a model that writes makes of texts.

struct GenerateArguments {
  std::string folder;              // a run's output_dir, or any folder with a model and its tokenizer
  std::vector<std::string> texts;  // "-" alone: the lines of standard input
  std::optional<std::string> prefix;
  // Keys of generation_config.json that the folder's do not count for.
  Json options = Json::object();
  std::int64_t batch = 8;
  std::int64_t max_source_length = 0;  // 0: the run's that made the folder, else 512
  std::string precision = "float32";   // or "bf16"
  bool json = false;
};

// Prints a line for each text, or one JSON document. Returns the exit code. Throws Error: kSettings for the arguments,
// kData for the folder and for texts that are not UTF-8. The texts before such a one are answered; a document then has
// their answers and the error, which is said, and its exit code returned.
int generate_command(const GenerateArguments& arguments);

// `bascule search FOLDER "text"`: the pictures nearest to a text, or the captions nearest to a picture, by the
// embeddings that a finished run left or among other pictures; or the texts of a file that are nearest to a text.
// Prints one line a hit (or one JSON document) and writes a page of pictures or texts.

struct SearchArguments {
  std::string folder;                 // a run's output_dir; with `images` any contrastive model will do
  std::string query;                  // a text; or the path of a picture that exists
  std::string picture;                // a picture, whatever its name; then there is no query
  std::string images;                 // search the pictures below this folder instead of the run's
  std::string texts;                  // search the texts of this file, with a model that embeds texts
  std::string index;                  // of these texts; empty: beside them
  std::optional<std::string> prompt;  // before the query, with `texts`; none: "query", if the folder has it
  std::size_t top = 10;
  std::string html;  // "": search.html in the folder
  bool json = false;
};

// Searches; prints and writes nothing. Throws Error: kSettings for arguments that do not go together, kData for folders
// and pictures.
SearchAnswer search(const SearchArguments& arguments, Isa isa, int threads);

// The same with `texts`. Makes or refreshes the index. Throws Error as TextEmbedder and TextIndex do.
SearchAnswer search_texts(const SearchArguments& arguments, Isa isa, int threads);

// The files of the pictures that it searches or shows. Throws Error kData as it does.
std::vector<std::string> searched_pictures(const SearchArguments& arguments);

// {"query", "query_is_picture", "searched", "candidates", "results": [{"score", "path", "caption", "right"}],
// "refused": [{"path", "reason"}], "html"} on one line; of texts the results are {"score", "text", "name"}. `html`: the
// page's path.
std::string search_json(const SearchAnswer& answer, const std::string& html);

// Writes the page, prints the answer. Throws Error kDisk.
void show_answer(const SearchArguments& arguments, const SearchAnswer& answer);

// All of it. Returns the exit code, 0. Throws Error.
int search_command(const SearchArguments& arguments);

}  // namespace bascule
