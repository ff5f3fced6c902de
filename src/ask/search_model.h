// SPDX-License-Identifier: Apache-2.0
// The parts of a search: picture files, the embeddings of a finished run, and the towers of its model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/answer/result_pages.h"
#include "src/ask/finished_model.h"
#include "src/base/nearest.h"
#include "src/base/span.h"
#include "src/pictures/picture_decoder.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// The embeddings of a finished run (embeddings.safetensors), and ranking by cosine. After a run; throws Error.

// Embeddings are rows of `width` floats of length 1, in the order of the manifest.
struct SearchIndex {
  std::string split;
  std::vector<std::string> paths, captions;  // by row
  std::vector<float> image_embeds, text_embeds;
};

// Throws Error kData where the file is absent, malformed, of another width than the model's, or holds NaN.
SearchIndex read_search_index(const std::string& folder, std::int64_t width);

// The `top` rows of `embeds` that are nearest to `query`, best first; ties by row. Only the best of rows with the same
// name is kept; *candidates is how many names there are. Requires rows of query.size() floats, as many as names.
std::vector<Neighbour> nearest_names(const std::vector<float>& query, const std::vector<float>& embeds,
                                     const std::vector<std::string>& names, std::size_t top, std::size_t* candidates);

// Throws Error kData, naming the first row of `width` floats that holds NaN or an infinity.
void refuse_not_finite(Span<const float> embeds, std::int64_t width, const std::string& where);

// Named *.jpg, *.jpeg, *.png or *.webp, in any case of letters.
bool has_picture_name(const std::string& path);

// All such files below a folder, by path. Links to folders are not followed. Throws Error kData if there is none.
std::vector<std::string> find_pictures(const std::string& folder);

// A contrastive model's towers, loaded to embed texts and pictures. The phases of a run in small: the constructor
// records, plans, seals and loads only what is wanted. Allocates, throws Error.

// The model of a folder. Throws Error kData if it has no embeddings of texts and pictures.
std::unique_ptr<Model> open_embedding_model(const std::string& folder);

struct PictureEmbeddings {
  std::vector<std::string> paths;  // those that were taken, in the order given
  std::vector<float> embeds;       // (paths, width of an embedding)
  std::vector<RefusedPicture> refused;
};

class SearchModel {
 public:
  struct Wanted {
    bool texts = false;
    std::size_t pictures = 0;  // how many there are to embed
  };
  // model: of the folder; outlives this.
  SearchModel(const std::string& folder, const Model& model, Wanted wanted, Isa isa, int threads);

  // Both throw Error kData for embeddings that are not finite.
  // Cut as the run cut its captions. Throws Error kSettings for text that is not UTF-8.
  std::vector<float> embed_text(const std::string& text);
  // Refused pictures are left out and listed.
  PictureEmbeddings embed_pictures(const std::vector<std::string>& paths);

 private:
  // Appends the embeddings of the first `count` pictures in pixels_.
  void embed_batch(std::int64_t count, std::vector<float>* embeds);

  const Model& model_;
  const ModelInputs needs_;
  const std::string folder_;
  AskedModel asked_;
  std::int64_t longest_text_ = 0;  // tokens
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::optional<PictureDecoder> decoder_;
  std::int64_t batch_ = 0;       // most pictures of a replay
  std::size_t image_graph_ = 0;  // the text graph, if any, is number 0
  Tensor text_embeds_, image_embeds_;
  std::vector<float> pixels_;  // (batch_, 3, side, side)
};

}  // namespace bascule
