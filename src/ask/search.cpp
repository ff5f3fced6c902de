// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/ask/ask.h"
#include "src/ask/search_model.h"
#include "src/ask/text_embedder.h"
#include "src/ask/text_index.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/hf_folder.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"
#include "src/json/json.h"
#include "src/judge/statistics.h"
#include "src/pictures/picture_decoder.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& what_to_do) {
  throw Error(ErrorKind::kSettings, where, what, what_to_do);
}

// The picture that is asked for; "" if a text is.
std::string query_picture(const SearchArguments& arguments) {
  if (arguments.query.empty() && arguments.picture.empty())
    refuse("search", "nothing to search for", "give a text, or a picture");
  if (!arguments.index.empty() || arguments.prompt)
    refuse(arguments.prompt ? "--prompt" : "--index", "is of a search over texts", "name a file of texts with --texts");
  if (!arguments.query.empty() && !arguments.picture.empty())
    refuse("search", "both a text and a picture are given", "give one of them");
  if (arguments.top == 0) refuse("--top", "0 results", "ask for 1 or more");
  // A file of another format is refused by its name, not searched as a text.
  const bool from_query = has_picture_name(arguments.query) ||
                          (std::filesystem::path(arguments.query).has_extension() && is_file(arguments.query));
  if (from_query && !is_file(arguments.query) && shard_of_picture(arguments.query).empty())
    throw Error(ErrorKind::kData, arguments.query, "no such picture");
  std::string picture = from_query ? arguments.query : arguments.picture;
  if (!picture.empty() && !arguments.images.empty()) {
    refuse("--images", "a picture searches captions, and the pictures of a folder have none",
           "search them with a text");
  }
  return picture;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return a == b || fs::equivalent(a, b, ignored);
}

// The query among the run's embeddings; what was found gets its thumbnails first.
EmbeddingMap map_of(const SearchIndex& index, const std::vector<float>& query, const std::vector<SearchHit>& hits) {
  MapSource source;
  source.rows = static_cast<std::int64_t>(index.paths.size());
  source.width = static_cast<std::int64_t>(query.size());
  source.text = index.text_embeds.data();
  source.image = index.image_embeds.data();
  source.row = [&](std::int64_t row) {
    const auto place = static_cast<std::size_t>(row);
    return MapRow{index.paths[place], index.captions[place]};
  };
  source.query = query;
  for (const SearchHit& hit : hits) source.first_pictures.push_back(hit.path);
  return make_embedding_map(source);
}

// Among the run's embeddings: the pictures nearest to a text, or the captions nearest to a picture.
SearchAnswer in_run(const std::string& query, bool is_picture, const SearchIndex& index, SearchModel& model,
                    std::size_t top) {
  SearchAnswer answer;
  answer.from_picture = is_picture;
  answer.searched = index.split;
  std::vector<float> embedded;
  if (is_picture) {
    PictureEmbeddings own = model.embed_pictures({query});
    if (!own.refused.empty()) throw Error(ErrorKind::kData, query, own.refused.front().reason);
    embedded = std::move(own.embeds);
  } else {
    embedded = model.embed_text(query);
  }
  const std::vector<std::string>& names = is_picture ? index.captions : index.paths;
  std::set<std::string> right;  // captions of the picture, or pictures that the text is a caption of
  for (std::size_t row = 0; row < names.size(); ++row) {
    if (is_picture ? same_file(index.paths[row], query) : index.captions[row] == query) right.insert(names[row]);
  }
  const std::vector<float>& embeds = is_picture ? index.text_embeds : index.image_embeds;
  for (const Neighbour& one : nearest_names(embedded, embeds, names, top, &answer.candidates)) {
    const auto row = static_cast<std::size_t>(one.row);
    answer.hits.push_back({index.paths[row], index.captions[row], one.score, right.count(names[row]) > 0});
  }
  answer.map = map_of(index, embedded, answer.hits);
  return answer;
}

SearchAnswer text_in_folder(const std::string& query, const std::string& folder, const std::vector<std::string>& paths,
                            SearchModel& model, std::size_t top) {
  PictureEmbeddings pictures = model.embed_pictures(paths);
  SearchAnswer answer;
  answer.searched = folder;
  answer.refused = std::move(pictures.refused);
  if (pictures.paths.empty()) {
    const RefusedPicture& first = answer.refused.front();
    throw Error(ErrorKind::kData, folder,
                (paths.size() == 1 ? "its only picture cannot be read; "
                                   : "none of its " + std::to_string(paths.size()) + " pictures can be read; ") +
                    first.path + ": " + first.reason);
  }
  for (const Neighbour& one :
       nearest_names(model.embed_text(query), pictures.embeds, pictures.paths, top, &answer.candidates)) {
    answer.hits.push_back({pictures.paths[static_cast<std::size_t>(one.row)], "", one.score, false});
  }
  return answer;
}

// The page shows what can still be read; what cannot is said and left blank.
std::vector<std::uint8_t> bytes_to_show(const std::string& path) {
  try {
    return read_picture_file(path);
  } catch (const Error& error) {
    std::fprintf(stderr, "bascule: search: missing from the page: %s\n", error.what());
    return {};
  }
}

void write_page(SearchAnswer answer, const std::string& path) {
  SearchPictures pictures;
  if (answer.from_picture) pictures.query = bytes_to_show(answer.query);
  for (const SearchHit& hit : answer.hits) {
    if (!answer.of_texts) pictures.hits.push_back(bytes_to_show(hit.path));
  }
  if (!answer.map.captions.empty()) {
    ThumbnailMaker maker;
    add_thumbnails(&answer.map, [&](const std::string& location) { return maker.make(location); });
  }
  try {
    write_output_file(path, search_html(answer, pictures));
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.problem(), "choose another path with --html");
  }
}

}  // namespace

SearchAnswer search(const SearchArguments& arguments, Isa isa, int threads) {
  const std::string picture = query_picture(arguments);
  const std::string &folder = arguments.folder, &query = picture.empty() ? arguments.query : picture;
  const std::unique_ptr<Model> opened = open_embedding_model(folder);
  SearchAnswer answer;
  if (!arguments.images.empty()) {
    const std::vector<std::string> paths = find_pictures(arguments.images);
    SearchModel model(folder, *opened, {true, paths.size()}, isa, threads);
    answer = text_in_folder(arguments.query, arguments.images, paths, model, arguments.top);
  } else {
    const SearchIndex index = read_search_index(folder, opened->embedding_width());
    SearchModel model(folder, *opened, {picture.empty(), picture.empty() ? 0u : 1u}, isa, threads);
    answer = in_run(query, !picture.empty(), index, model, arguments.top);
  }
  answer.model = folder;
  answer.query = query;
  return answer;
}

std::vector<std::string> searched_pictures(const SearchArguments& arguments) {
  if (!arguments.images.empty()) return find_pictures(arguments.images);
  std::vector<std::string> paths =
      read_search_index(arguments.folder, open_embedding_model(arguments.folder)->embedding_width()).paths;
  for (std::string& path : paths) {
    if (std::string shard = shard_of_picture(path); !shard.empty()) path = std::move(shard);
  }
  return paths;
}

std::string search_json(const SearchAnswer& answer, const std::string& html) {
  Json results = Json::array(), refused = Json::array();
  for (const SearchHit& hit : answer.hits) {
    if (answer.of_texts)
      results.push_back({{"score", hit.score}, {"text", hit.caption}, {"name", hit.path}});
    else
      results.push_back({{"score", hit.score}, {"path", hit.path}, {"caption", hit.caption}, {"right", hit.right}});
  }
  for (const RefusedPicture& one : answer.refused) refused.push_back({{"path", one.path}, {"reason", one.reason}});
  return json_text({{"query", answer.query},
                    {"query_is_picture", answer.from_picture},
                    {"searched", answer.searched},
                    {"candidates", answer.candidates},
                    {"results", results},
                    {"refused", refused},
                    {"html", html}});
}

void show_answer(const SearchArguments& arguments, const SearchAnswer& answer) {
  for (const RefusedPicture& one : answer.refused) {
    std::fprintf(stderr, "bascule: search: skipping %s: %s\n", one.path.c_str(), one.reason.c_str());
  }
  const std::string html = arguments.html.empty() ? arguments.folder + "/search.html" : arguments.html;
  write_page(answer, html);
  const std::string text = arguments.json ? search_json(answer, html) + "\n" : search_text(answer);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fprintf(stderr, "bascule: search: %s: %s\n", answer.of_texts ? "texts" : "pictures", html.c_str());
}

int search_command(const SearchArguments& arguments) {
  const auto find = arguments.texts.empty() ? search : search_texts;
  show_answer(arguments, find(arguments, choose_isa("auto"), threads_of_process()));
  return 0;
}

namespace {

void add_file(Digest* digest, const InputFile& file) {
  std::vector<char> block(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const auto count = std::min(static_cast<std::int64_t>(block.size()), file.size() - at);
    file.read(block.data(), at, static_cast<std::size_t>(count));
    digest->add(block.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

// All that decides on a vector: weights, configuration, tokenizer, the folder's rules, and the prompt.
std::string digest_of_model(const TextEmbedder& embedder, const std::string& prompt) {
  const SentenceFolder& sentence = embedder.sentence();
  Digest digest;
  const TensorSource weights = open_hf_weights(sentence.body);
  for (const InputFile& file : weights.files()) add_file(&digest, file);
  add_file(&digest, InputFile(sentence.body + "/config.json"));
  digest.add_number(embedder.tokenizer().digest());
  for (const std::int64_t rule :
       {static_cast<std::int64_t>(sentence.pooling), std::int64_t{sentence.normalize}, sentence.max_seq_length,
        std::int64_t{sentence.lower_case}, static_cast<std::int64_t>(sentence.similarity)})
    digest.add_number(static_cast<std::uint64_t>(rule));
  digest.add(prompt.data(), prompt.size());
  return std::to_string(digest.value());
}

// Of the library's two: a folder that does not have it uses none.
std::string prompt_of(const SentenceFolder& sentence, const char* name) {
  const std::string its(name);
  return sentence.prompts.count(its) > 0 ? prompt_named(sentence, &its) : "";
}

// Embeds texts as the index keeps them: of length 1 where cosines compare them.
class IndexedVectors {
 public:
  IndexedVectors(TextEmbedder& embedder, std::string where) : embedder_(embedder), where_(std::move(where)) {}

  void append(const std::vector<std::string>& texts, const std::string& prompt, std::vector<float>* vectors) {
    std::vector<TextTokens> tokens;
    for (const std::string& text : texts) {
      tokens.push_back(embedder_.encode(text, prompt, where_));
      cut_ += tokens.back().is_cut() ? 1 : 0;
    }
    const std::int64_t width = embedder_.width();
    const std::size_t first = vectors->size();
    vectors->resize(first + texts.size() * static_cast<std::size_t>(width));
    embedder_.embed(tokens, vectors->data() + first);
    if (embedder_.sentence().similarity != Similarity::kCosine) return;
    for (float* row = vectors->data() + first; row != vectors->data() + vectors->size(); row += width) {
      const double length = vector_length(row, width);
      for (std::int64_t i = 0; i < width; ++i) row[i] = static_cast<float>(static_cast<double>(row[i]) / length);
    }
  }
  std::size_t cut() const { return cut_; }

 private:
  TextEmbedder& embedder_;
  std::string where_;
  std::size_t cut_ = 0;
};

}  // namespace

SearchAnswer search_texts(const SearchArguments& arguments, Isa isa, int threads) {
  if (!arguments.picture.empty() || !arguments.images.empty())
    refuse("--texts", "texts are searched with a text", "leave out --picture and --images");
  if (arguments.query.empty()) refuse("search", "nothing to search for", "give a text");
  TextEmbedder embedder(arguments.folder, isa, threads);
  const SentenceFolder& sentence = embedder.sentence();
  const std::string of_texts = prompt_of(sentence, "document");
  const std::string of_query =
      arguments.prompt ? prompt_named(sentence, &*arguments.prompt) : prompt_of(sentence, "query");
  const std::int64_t tokens = std::max(kTokensAtOnce, sentence.max_seq_length);
  IndexedVectors vectors(embedder, arguments.texts);
  std::size_t embedded = 0;
  const TextIndex index(
      {arguments.texts, arguments.index.empty() ? arguments.texts + ".index.safetensors" : arguments.index,
       digest_of_model(embedder, of_texts), embedder.width()},
      [&](std::size_t bytes) {
        const std::size_t ids = kTextsAtOnce * static_cast<std::size_t>(sentence.max_seq_length) * sizeof(std::int32_t);
        embedder.plan(tokens, bytes + ids);
      },
      [&](const std::vector<std::string>& texts, std::vector<float>* all) {
        vectors.append(texts, of_texts, all);
        embedded += texts.size();
        std::fprintf(stderr, "bascule: search: %zu texts embedded\n", embedded);
      },
      [](const std::string& line) { std::fprintf(stderr, "bascule: search: %s\n", line.c_str()); });
  if (vectors.cut() > 0) {
    std::fprintf(stderr, "bascule: search: %zu of %zu texts had more than %lld tokens and were cut\n", vectors.cut(),
                 embedded, static_cast<long long>(sentence.max_seq_length));
  }
  std::vector<float> query;
  IndexedVectors(embedder, "the text to search for").append({arguments.query}, of_query, &query);
  SearchAnswer answer;
  answer.of_texts = true;
  answer.model = arguments.folder;
  answer.query = arguments.query;
  answer.searched = arguments.texts;
  answer.candidates = static_cast<std::size_t>(index.texts());
  for (const Neighbour& one : index.nearest(query, arguments.top, embedder.products(), embedder.threads())) {
    FoundText text = index.text(one.row);
    answer.hits.push_back({std::move(text.name), std::move(text.text), one.score, false});
  }
  return answer;
}

}  // namespace bascule
