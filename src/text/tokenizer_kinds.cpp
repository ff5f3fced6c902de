// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer_kinds.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/base/utf8.h"
#include "src/json/json.h"
#include "src/text/byte_level_bpe.h"
#include "src/text/clip.h"
#include "src/text/unigram.h"
#include "src/text/vocabulary.h"
#include "src/text/word_piece_files.h"

namespace bascule {
namespace {

// The classes of Transformers 5.23 that build a tokenizer of their own; it takes tokenizer.json as it stands with all
// others, and with names that it does not know.
constexpr char kBuilders[] =
    " Albert Bart Barthez Bartpho Bert BertGeneration BertJapanese Bertweet BigBird BioGpt Blenderbot BlenderbotSmall "
    "ByT5 CLIP CTRL Camembert Canine Clvp CodeGen CodeLlama Cohere ConvBert Cpm CpmAnt DPRContextEncoder "
    "DPRQuestionEncoder DPRReader Deberta DebertaV2 Dia DistilBert Electra Esm Esmc FNet FSMT FastSpeech2Conformer "
    "Flaubert Funnel GPT2 GPTNeoX GPTNeoXJapanese GPTSw3 Gemma Herbert LED Lasr LayoutLMv2 LayoutLMv3 LayoutXLM Llama "
    "Longformer Luke Lxmert M2M100 MBart MBart50 MLuke MPNet Marian MarkupLM Mgpstr MobileBert Mvp MyT5 Nllb Nougat "
    "OpenAIGPT PLBart Pegasus Perceiver Phobert Pop2Piano ProphetNet Qwen2 Qwen3_5 Rag Reformer RemBert RoCBert "
    "RoFormer Roberta SeamlessM4T Siglip Siglip2 Speech2Text SpeechT5 Splinter SqueezeBert T5 Tapas Tipsv2 Udop "
    "VideoPrism Vits Wav2Vec2CTC Wav2Vec2PhonemeCTC Whisper XGLM XLM XLMRoberta XLNet ";

// A setting with which ids are other ones, unless it has the harmless value.
constexpr struct {
  const char *key, *harmless, *what_to_do;
} kHarmful[] = {
    {"auto_map", "{}", "code of a folder is not run; save the tokenizer with a class of Transformers"},
    {"fast_tokenizer_files", "[]", "call the file that counts tokenizer.json, and remove the key"},
    {"init_inputs", "[]", "remove the key"},
    {"padding_side", "\"right\"", "write \"right\""},
    {"split_special_tokens", "false", "write false: special tokens in a text are found"},
    {"subword_tokenizer_type", "\"wordpiece\"", "only WordPiece is supported"},
    {"truncation_side", "\"right\"", "write \"right\": texts are cut there"},
    {"word_tokenizer_type", "\"basic\"", "only words between spaces and punctuation are supported"},
};

std::string without_end(std::string name, std::string_view end) {
  if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
    name.resize(name.size() - end.size());
  return name;
}

bool is_in(const std::string& names, const std::string& name) {
  return names.find(" " + name + " ") != std::string::npos;
}

// " Bert Electra " -> "BertTokenizer, ElectraTokenizer"
std::string listed(std::string_view names) {
  std::string list;
  for (std::size_t begin = 1; begin < names.size();) {
    const std::size_t end = names.find(' ', begin);
    list += (list.empty() ? "" : ", ") + std::string(names.substr(begin, end - begin)) + "Tokenizer";
    begin = end + 1;
  }
  return list;
}

void check_class(const TokenizerClasses& classes, const TokenizerFolder& folder) {
  const std::string& name = folder.class_name;
  const std::string all_vocabulary = std::string(classes.own) + (classes.derived + 1);
  if (is_in(all_vocabulary, name)) return;
  const std::string said = "tokenizer_class is \"" + folder.class_as_written + "\"";
  if (!folder.document.is_null()) {
    if (!is_in(kBuilders, name) || is_in(classes.beside, name)) return;
    throw Error{ErrorKind::kData, folder.class_where,
                said + ", with which Transformers does not give the ids of this tokenizer.json",
                "of this kind " + listed(classes.own) + " and PreTrainedTokenizerFast are supported"};
  }
  if (!name.empty()) {
    throw Error{ErrorKind::kData, folder.class_where, said + ", which is not supported without tokenizer.json",
                "supported are " + listed(all_vocabulary)};
  }
  if (!folder.model_type.empty() && !is_in(classes.models, folder.model_type)) {
    throw Error{ErrorKind::kData, folder.class_where,
                "the tokenizer of model_type \"" + folder.model_type + "\" is not supported without tokenizer.json"};
  }
}

}  // namespace

void read_tokenizer_config(TokenizerFolder* folder) {
  folder->config = Json::object();
  folder->config_where = folder->class_where = folder->path + "/tokenizer_config.json";
  if (folder->has("tokenizer_config.json")) folder->config = read_json_file(folder->config_where);
  folder->class_as_written = get_string(folder->config, "tokenizer_class", folder->config_where, "");
  if (folder->class_as_written.empty() && folder->has("config.json")) {
    const std::string where = folder->path + "/config.json";
    const Json model = read_json_file(where);
    folder->class_where = where;
    folder->class_as_written = get_string(model, "tokenizer_class", where, "");
    folder->model_type = get_string(model, "model_type", where, "");
  }
  folder->class_name = without_end(without_end(folder->class_as_written, "Fast"), "Tokenizer");
}

void check_tokenizer_config(const TokenizerClasses& classes, TokenizerFolder* folder) {
  check_class(classes, *folder);
  for (const auto& [key, harmless, what_to_do] : kHarmful) {
    const Json* const value = find_member(folder->config, key, folder->config_where);
    if (value == nullptr || json_text(*value) == harmless) continue;
    throw Error{ErrorKind::kData, folder->config_where,
                std::string(key) + " is " + json_text(*value) + ", which is not supported", what_to_do};
  }
  // Where no file names a class, that of the model counts; a folder without either is taken as it stands.
  const bool is_builder =
      folder->class_name.empty() ? is_in(classes.models, folder->model_type) : is_in(kBuilders, folder->class_name);
  const bool is_own = folder->class_name.empty() ? is_builder : is_in(classes.own, folder->class_name);
  folder->takes_document = !folder->document.is_null() && !is_builder;
  folder->is_rebuilt = folder->document.is_null() || is_own;
}

namespace {

constexpr TokenizerKind kKinds[] = {
    {"byte-level BPE (RoBERTa)",
     [](const TokenizerFolder& f) { return f.model == "BPE" && f.word_end.empty(); },
     load_byte_level_bpe,
     byte_level_bpe_texts,
     nullptr,
     true,
     {" Roberta Bart LED Longformer Mvp ", " ", " CodeGen Deberta FNet GPT2 Llama ",
      " roberta bridgetower bart led longformer mvp "}},
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
      " bert distilbert electra convbert lxmert mobilebert squeezebert "}},
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

bool stands_without_class(const std::string& folder) {
  TokenizerFolder opened;
  opened.path = folder;
  read_tokenizer_config(&opened);
  if (!opened.class_name.empty() || !opened.has("tokenizer.json")) return false;
  opened = open_folder(folder);
  (void)kind_of(opened);
  return opened.takes_document;
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
