// SPDX-License-Identifier: Apache-2.0
// The files that a folder of a model may have beside config.json and weights. They are read, copied, summed and listed
// by several rooms.
#pragma once

namespace bascule {

// The files of a tokenizer, in any of its forms. A folder has some of them.
inline constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                                  "tokenizer_config.json",
                                                  "special_tokens_map.json",
                                                  "added_tokens.json",
                                                  "vocab.json",
                                                  "merges.txt",
                                                  "vocab.txt"};
// Those of an image processor.
inline constexpr const char* kPreprocessorFiles[] = {"preprocessor_config.json", "processor_config.json"};

// Those of a model that makes vectors of texts, as patterns; files of its modules lie in folders of their own.
inline constexpr const char* kSentenceFiles[] = {"modules.json", "config_sentence_transformers.json",
                                                 "sentence_*_config.json"};
inline constexpr const char* kSentenceFolders[] = {"[0-9]_Pooling", "[0-9]_Normalize"};

// How a model's texts are generated.
inline constexpr const char* kGenerationFiles[] = {"generation_config.json"};

}  // namespace bascule
