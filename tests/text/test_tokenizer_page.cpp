// SPDX-License-Identifier: Apache-2.0
// What src/text/README.md says of each class and key of a tokenizer's files, tried with folders that have them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test_tokenizer_page {
namespace {

using test::TemporaryFolder;

const std::string kData = std::string(BASCULE_TEST_DATA) + "/";

// A column of the page: the folder, and whether it has tokenizer.json.
struct Column {
  std::string folder;
  bool has_document;
};
const std::map<std::string, Column> kColumns = {
    {"BERT", {"tokenizer/wordpiece", true}},
    {"`vocab.txt`", {"tokenizer/wordpiece", false}},
    {"T5", {"tokenizer/unigram", true}},
    {"RoBERTa", {"emoji-captions/tokenizer", true}},
    {"`vocab.json`", {"emoji-captions/tokenizer", false}},
    {"CLIP", {"tokenizer/clip", true}},
    {"its `vocab.json`", {"tokenizer/clip", false}},
};

// The folder's tokenizer.json with special tokens and single characters alone, for speed.
Json small_document(const std::string& folder) {
  Json document = read_json_file(kData + folder + "/tokenizer.json");
  Json& vocabulary = document["model"]["vocab"];
  std::vector<std::pair<std::string, Json>> pieces;  // by id, with the score
  if (vocabulary.is_array()) {
    for (const Json& piece : vocabulary) pieces.emplace_back(piece[0].string(), piece[1]);
  } else {
    pieces.resize(vocabulary.size());
    for (const auto& [text, id] : vocabulary.items()) pieces[static_cast<std::size_t>(id.integer())].first = text;
    document["model"]["vocab"] = Json::object();
  }
  Json kept = Json::array(), ids = Json::object();
  for (const auto& [text, score] : pieces) {
    const bool is_special =
        text.size() > 3 && (text.front() == '<' || text.front() == '[') && text.find_first_of(">]") == text.size() - 1;
    if (!is_special && text.size() > 3) continue;
    Json piece = Json::array();
    piece.push_back(Json(text));
    piece.push_back(score);
    ids[text] = static_cast<std::int64_t>(ids.size());
    kept.push_back(piece);
  }
  document["model"]["vocab"] = document["model"]["vocab"].is_array() ? kept : ids;
  if (document["model"].find("merges") != nullptr) document["model"]["merges"] = Json::array();
  Json added = Json::array();
  for (Json token : document["added_tokens"]) {
    token["id"] = ids[token["content"].string()];
    added.push_back(token);
  }
  document["added_tokens"] = added;
  return document;
}

const Json& document_of(const std::string& folder) {
  static std::map<std::string, Json> documents;
  const auto found = documents.find(folder);
  return found != documents.end() ? found->second : documents.emplace(folder, small_document(folder)).first->second;
}

std::string unquoted(const std::string& cell) {
  return !cell.empty() && cell.front() == '`' ? cell.substr(1, cell.size() - 2) : cell;
}

// The rows of the page's tables whose header begins with `first`, each with the header.
using Row = std::vector<std::string>;
std::vector<std::pair<Row, Row>> rows_of(const std::string& first, std::size_t columns) {
  std::ifstream page(kData + "../../src/text/README.md");
  std::vector<std::pair<Row, Row>> rows;
  Row header;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| ", 0) != 0) {
      if (line.rfind("|--", 0) != 0) header.clear();
      continue;
    }
    Row cells;
    for (std::size_t begin = 2, end = 0; (end = line.find(" |", begin - 1)) != std::string::npos; begin = end + 3)
      cells.push_back(end < begin ? "" : line.substr(begin, end - begin));
    if (header.empty()) {
      header = cells;
    } else if (header[0] == first && header.size() == columns) {
      rows.emplace_back(header, cells);
    }
  }
  return rows;
}

// What a tokenizer says of itself, and ids that it gives.
struct Said {
  std::string all;
  std::int32_t next_id = 0;  // the first that no token has
};

// A folder of the page.
class Tried {
 public:
  Tried(const std::string& column, const std::string& class_name)
      : column_(kColumns.at(column)), document_(document_of(column_.folder)) {
    config_ = read_json_file(kData + column_.folder + "/tokenizer_config.json");
    if (!class_name.empty()) config_["tokenizer_class"] = class_name;
    if (column == "T5") {  // so that additional_special_tokens count
      Json without = Json::object();
      for (const auto& [key, value] : config_.items())
        if (key != "extra_special_tokens") without[key] = value;
      config_ = without;
    }
  }
  Json& config() { return config_; }
  // key: with dots, of tokenizer.json.
  void set_in_document(const std::string& key, const Json& value) {
    Json* at = &document_;
    for (std::size_t begin = 0; begin <= key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      at = &(*at)[key.substr(begin, end - begin)];
      begin = end + 1;
    }
    *at = value;
  }
  // Throws what load_tokenizer() throws.
  Said said() const {
    const TemporaryFolder folder;
    const Json& vocabulary = document_["model"]["vocab"];
    if (column_.has_document) {
      folder.write("tokenizer.json", json_text(document_));
    } else if (document_["model"]["type"].string() == "BPE") {
      folder.write("vocab.json", json_text(vocabulary));
      folder.write("merges.txt", "");
    } else {
      std::vector<std::string> lines(vocabulary.size());
      for (const auto& [text, id] : vocabulary.items()) lines[static_cast<std::size_t>(id.integer())] = text;
      std::string all;
      for (const std::string& line : lines) all += line + "\n";
      folder.write("vocab.txt", all);
    }
    folder.write("tokenizer_config.json", json_text(config_));
    const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.path());
    std::string said = std::to_string(tokenizer->digest()) + " " + std::to_string(tokenizer->second_type());
    for (const char* text : {"a Möchte qq, two 中文 cats", " hello <mask></s> "})
      said += " " + json_text(Json(tokenizer->encode(text)));
    return {said, tokenizer->vocabulary_size()};
  }

 private:
  Column column_;
  Json document_, config_;
};

// What the folder says without a change.
const Said& said_before(const std::string& column, const std::string& class_name) {
  static std::map<std::pair<std::string, std::string>, Said> known;
  const auto found = known.find({column, class_name});
  if (found != known.end()) return found->second;
  return known.emplace(std::pair(column, class_name), Tried(column, class_name).said()).first->second;
}

// The first id that no token has in the place of NEXT.
Json value_of(const std::string& cell, const Said& before) {
  std::string value = unquoted(cell);
  const std::size_t next = value.find("NEXT");
  if (next != std::string::npos) value.replace(next, 4, std::to_string(before.next_id));
  return parse_json(value, cell);
}

void expect_outcome(const std::string& outcome, const std::string& key, const Said& before, const Tried& changed) {
  try {
    const std::string after = changed.said().all;
    if (outcome == "read") {
      EXPECT_NE(after, before.all);
    } else if (outcome == "no effect") {
      EXPECT_EQ(after, before.all);
    } else {
      EXPECT_EQ(outcome, "taken");
    }
  } catch (const Error& error) {
    EXPECT_EQ(outcome, "refused") << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
  }
}

TEST(TokenizerPage, SaysWhichClassesAreTaken) {
  const std::vector<std::pair<Row, Row>> rows = rows_of("class", 8);
  ASSERT_GE(rows.size(), 20u);
  for (const auto& [header, cells] : rows) {
    for (std::size_t i = 1; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      SCOPED_TRACE(header[i] + " " + cells[0]);
      expect_outcome(cells[i], unquoted(cells[0]), Said(), Tried(header[i], unquoted(cells[0])));
    }
  }
}

TEST(TokenizerPage, SaysWhichKeysOfTheConfigurationCount) {
  const std::vector<std::pair<Row, Row>> rows = rows_of("key", 9);
  ASSERT_GE(rows.size(), 40u);
  for (const auto& [header, cells] : rows) {
    const std::string key = unquoted(cells[0]);
    for (std::size_t i = 2; i < cells.size(); ++i) {
      SCOPED_TRACE(header[i] + " " + key);
      const Said& before = said_before(header[i], "");
      Tried changed(header[i], "");
      changed.config()[key] = value_of(cells[1], before);
      expect_outcome(cells[i], key, before, changed);
    }
  }
}

TEST(TokenizerPage, SaysWhichKeysOfTheDocumentCount) {
  const std::vector<std::pair<Row, Row>> rows = rows_of("key", 6);
  ASSERT_GE(rows.size(), 20u);
  for (const auto& [header, cells] : rows) {
    const std::string key = unquoted(cells[0]);
    for (std::size_t i = 2; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      SCOPED_TRACE(header[i] + " " + key);
      const Said& before = said_before(header[i], "PreTrainedTokenizerFast");
      Tried changed(header[i], "PreTrainedTokenizerFast");
      changed.set_in_document(key, value_of(cells[1], before));
      // What BPE puts behind words makes another kind of tokenizer.
      expect_outcome(cells[i], key == "model.end_of_word_suffix" ? "end of words" : key.substr(key.rfind('.') + 1),
                     before, changed);
    }
  }
}

}  // namespace
}  // namespace bascule::test_tokenizer_page
