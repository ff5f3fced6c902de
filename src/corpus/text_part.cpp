// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/token_store.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/index/line_reader.h"
#include "src/index/open_manifest.h"

namespace bascule {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos; }

void check_line(const std::string& path, std::int64_t number, std::string_view line) {
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    throw Error{ErrorKind::kData, path + ":" + std::to_string(number), what, what_to_do};
  };
  if (number > std::numeric_limits<std::uint32_t>::max()) refuse("too many lines", "split the file");
  if (line.size() > kLongestLine) {
    refuse("the line has more than " + std::to_string(kLongestLine) + " bytes",
           "write one sentence a line and an empty line between documents");
  }
  if (line.find('\0') != std::string_view::npos) refuse("has NUL bytes: it is not a text", "remove them");
  const std::size_t invalid = first_invalid_utf8(line);
  if (invalid < line.size())
    refuse("byte " + std::to_string(invalid) + " of the line is not UTF-8", "write the text in UTF-8");
}

}  // namespace

std::uint64_t read_text(const DataFiles& files, const TextVisitor& visitor) {
  std::vector<std::uint64_t> digests;
  std::int64_t sentences = 0;
  for (const DataFile& file : files.manifests) {
    LineReader reader(file.path, kLongestLine);
    for (std::string_view line; reader.next(&line);) {
      if (is_blank(line)) {
        visitor.end_document();
        continue;
      }
      check_line(file.path, reader.line(), line);
      if (++sentences > std::numeric_limits<std::uint32_t>::max())
        throw Error{ErrorKind::kData, files.name, "has more than 4,294,967,295 sentences", "train on a part of it"};
      visitor.sentence(line, reader.line());
    }
    visitor.end_document();
    visitor.end_file();
    digests.push_back(reader.digest());
  }
  if (sentences == 0) {
    throw Error{ErrorKind::kData, files.name, "has no text: all of its lines are empty",
                "write one sentence a line and an empty line between documents"};
  }
  if (digests.size() == 1) return digests.front();
  Digest all;
  for (const std::uint64_t digest : digests) all.add_number(digest);
  return all.value();
}

std::uint64_t digest_of_part(std::uint64_t whole, const TextPart& part) {
  std::uint64_t share = 0;
  std::memcpy(&share, &part.share, sizeof share);
  Digest digest;
  for (const std::uint64_t number : {whole, share, std::uint64_t{part.is_held_out}, std::uint64_t{part.by_line}})
    digest.add_number(number);
  return digest.value();
}

std::uint64_t read_part(const DataFiles& files, const TextPart& part, const TextVisitor& visitor,
                        std::int64_t* others) {
  std::string text;                                             // of the document, each sentence with a line break
  std::vector<std::pair<std::size_t, std::int64_t>> sentences;  // end in it, with its line break; line
  const auto is_ours = [&] {
    const bool ours = is_held_out(digest_of(text.data(), text.size()), part.share) == part.is_held_out;
    if (!ours) ++*others;
    return ours;
  };
  TextVisitor all;
  all.sentence = [&](std::string_view sentence, std::int64_t line) {
    text.append(sentence).push_back('\n');
    if (!part.by_line) {
      sentences.emplace_back(text.size(), line);
      return;
    }
    if (is_ours()) visitor.sentence(sentence, line);
    text.clear();
  };
  all.end_document = [&] {
    if (!sentences.empty() && is_ours()) {
      std::size_t begin = 0;
      for (const auto& [end, line] : sentences) {
        visitor.sentence(std::string_view(text).substr(begin, end - 1 - begin), line);
        begin = end;
      }
    }
    text.clear();
    sentences.clear();
    visitor.end_document();
  };
  all.end_file = visitor.end_file;
  return digest_of_part(read_text(files, all), part);
}

}  // namespace bascule
