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

// How a model's texts are generated.
inline constexpr const char* kGenerationFiles[] = {"generation_config.json"};

}  // namespace bascule
