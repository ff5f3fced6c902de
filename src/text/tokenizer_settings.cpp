// SPDX-License-Identifier: Apache-2.0
#include "src/text/tokenizer_settings.h"

#include <string_view>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"

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
  folder->takes_document =
      !folder->document.is_null() && !folder->class_name.empty() && !is_in(kBuilders, folder->class_name);
  folder->is_rebuilt =
      folder->document.is_null() || folder->class_name.empty() || is_in(classes.own, folder->class_name);
}

}  // namespace bascule
