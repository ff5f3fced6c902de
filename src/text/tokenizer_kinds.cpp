// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer_kinds.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "src/base/error.h"
#include "src/base/model_folder.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/text/byte_level_bpe.h"
#include "src/text/clip.h"
#include "src/text/unigram.h"
#include "src/text/vocabulary.h"
#include "src/text/word_piece.h"

namespace bascule {
namespace {

constexpr TokenizerKind kKinds[] = {
    {"byte-level BPE (RoBERTa)",
     [](const TokenizerFolder& f) { return f.model == "BPE" && f.word_end.empty(); },
     load_byte_level_bpe,
     byte_level_bpe_texts,
     nullptr,
     true,
     {" Roberta Bart LED Longformer Mvp ", " ", " CodeGen Deberta FNet GPT2 Llama ", " roberta bridgetower bart "}},
    {"byte-level BPE (CLIP)",
     [](const TokenizerFolder& f) { return f.model == "BPE" && f.word_end == "</w>"; },
     load_clip,
     clip_texts,
     load_clip_decoder,
     true,
     {" CLIP ", " ", " Llama ", " clip clip_text_model "}},
    {"WordPiece (BERT)",
     [](const TokenizerFolder& f) { return f.model == "WordPiece"; },
     load_word_piece,
     word_piece_texts,
     nullptr,
     false,
     {" Bert DistilBert Electra Lxmert MobileBert SqueezeBert ", " ConvBert ", " FNet ",
      " bert distilbert electra convbert mobilebert squeezebert "}},
    {"unigram (T5)",
     [](const TokenizerFolder& f) { return f.model == "Unigram"; },
     load_unigram,
     unigram_texts,
     load_unigram_decoder,
     false,
     {" T5 ", " ", " VideoPrism ", " t5 "}},
};

// The model that a vocabulary's file belongs to, where there is no tokenizer.json.
constexpr struct {
  const char *file, *model;
} kVocabularies[] = {{"vocab.json", "BPE"},
                     {"vocab.txt", "WordPiece"},
                     {"spiece.model", "Unigram"},
                     {"sentencepiece.bpe.model", "Unigram"}};

TokenizerFolder open_folder(const std::string& path, const std::string& how_to_choose = "") {
  require_model_folder(path);
  TokenizerFolder folder;
  folder.path = path;
  read_tokenizer_config(&folder);
  if (folder.has("tokenizer.json")) {
    folder.where = path + "/tokenizer.json";
    folder.document = read_json_file(folder.where);
    const Json& model = get_object(folder.document, "model", folder.where);
    folder.model = get_string(model, "type", folder.where, "BPE");
    folder.word_end = get_string(model, "end_of_word_suffix", folder.where, "");
    return folder;
  }
  const auto* const found = std::find_if(std::begin(kVocabularies), std::end(kVocabularies),
                                         [&](const auto& one) { return folder.has(one.file); });
  if (found == std::end(kVocabularies)) {
    throw Error{ErrorKind::kData, path, "has neither tokenizer.json nor vocab.json or vocab.txt",
                "choose a folder with one of them" + how_to_choose};
  }
  folder.where = path + "/" + found->file;
  folder.model = found->model;
  if (folder.class_name == "CLIP") folder.word_end = "</w>";  // its vocab.json looks like RoBERTa's
  return folder;
}

const TokenizerKind& kind_of(TokenizerFolder& folder) {
  std::string known;
  for (const TokenizerKind& kind : kKinds) {
    if (kind.is(folder)) {
      check_tokenizer_config(kind.classes, &folder);
      return kind;
    }
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error{ErrorKind::kData, folder.where,
              "a " + folder.model + " tokenizer" +
                  (folder.word_end.empty() ? "" : " with \"" + folder.word_end + "\" at the end of words") +
                  " is not supported",
              "use one of: " + known};
}

}  // namespace

bool TokenizerFolder::has(const char* file) const {
  return std::filesystem::is_regular_file(path + "/" + file);  // throws for a folder that may not be searched
}

std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& folder, const std::string& how_to_choose) {
  TokenizerFolder opened = open_folder(folder, how_to_choose);
  const TokenizerKind& kind = kind_of(opened);
  return kind.load(opened);
}

std::unique_ptr<const TokenDecoder> load_token_decoder(const std::string& folder) {
  TokenizerFolder opened = open_folder(folder);
  const TokenizerKind& kind = kind_of(opened);
  if (kind.load_decoder == nullptr)
    throw Error{ErrorKind::kData, opened.where, std::string("token ids of ") + kind.name + " cannot be decoded yet"};
  return kind.load_decoder(opened);
}

std::vector<std::string> load_token_texts(const std::string& folder) {
  TokenizerFolder opened = open_folder(folder);
  const TokenizerKind& kind = kind_of(opened);
  return kind.token_texts(opened);
}

std::vector<std::string> load_shown_tokens(const std::string& folder) {
  TokenizerFolder opened = open_folder(folder);
  const TokenizerKind& kind = kind_of(opened);
  std::vector<std::string> tokens = kind.token_texts(opened);
  if (!kind.is_byte_level) return tokens;
  for (std::string& token : tokens) {
    const std::optional<std::string> bytes = token_bytes(token);
    if (bytes && first_invalid_utf8(*bytes) == bytes->size()) token = *bytes;
  }
  return tokens;
}

}  // namespace bascule
