// SPDX-License-Identifier: Apache-2.0
// SentencePiece's unigram tokenizer, and the trie of its pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// The pieces of a unigram vocabulary as a trie over bytes: all pieces that a text begins with, shortest first.

class PieceTrie {
 public:
  PieceTrie() = default;
  // Pieces and their ids. Of equal pieces the last one counts; empty ones do not. Before the seal.
  explicit PieceTrie(std::vector<std::pair<std::string, std::int32_t>> pieces);

  // After the seal: calls found(bytes of the piece, id) for each piece that text, from `place` on, begins with.
  template <typename Found>
  void find_all(std::string_view text, std::size_t place, Found found) const noexcept {
    if (place == text.size()) return;
    std::uint32_t node = first_[static_cast<unsigned char>(text[place])];
    for (std::size_t bytes = 1; node != 0; ++bytes) {
      if (nodes_[node].id >= 0) found(bytes, nodes_[node].id);
      if (place + bytes == text.size()) return;
      node = child(nodes_[node], static_cast<unsigned char>(text[place + bytes]));
    }
  }
  std::size_t longest() const noexcept { return longest_; }  // bytes of the longest piece

 private:
  struct Node {
    std::uint32_t children = 0;  // the first of them; they lie side by side, in the order of their bytes
    std::uint16_t count = 0;
    std::uint8_t byte = 0;
    std::int32_t id = -1;  // of the piece that ends here; -1: none
  };
  std::uint32_t child(const Node& node, std::uint8_t byte) const noexcept {
    for (std::uint32_t i = node.children; i < node.children + node.count; ++i) {
      if (nodes_[i].byte >= byte) return nodes_[i].byte == byte ? i : 0;
    }
    return 0;
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);  // 0: the root
  std::uint32_t first_[256] = {};                   // children of the root; 0: none
  std::size_t longest_ = 0;
};

// SentencePiece's unigram tokenizer, as Transformers' T5Tokenizer with tokenizers 0.23: special tokens written in the
// text are taken first; the text between them is normalised by a map of characters and cut into words that begin with
// "▁"; each word becomes the pieces whose log probabilities have the greatest sum (Viterbi), the one found first of
// equal ones. A character that no piece covers costs 10 more than the rarest piece; neighbours of that kind are one
// unknown token. Before the seal; throws Error (kData).

// tokenizer.json; spiece.model alone is refused.
std::unique_ptr<const Tokenizer> load_unigram(const TokenizerFolder& folder);
// Each token as the file writes it.
std::vector<std::string> unigram_texts(const TokenizerFolder& folder);
std::unique_ptr<const TokenDecoder> load_unigram_decoder(const TokenizerFolder& folder);

}  // namespace bascule
