// SPDX-License-Identifier: Apache-2.0
#include "src/ask/asked_text.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "src/base/check.h"
#include "src/base/paths.h"
#include "src/base/systemd.h"
#include "src/base/utf8.h"
#include "src/json/json.h"

namespace bascule {
namespace {

constexpr char kWhere[] = "standard input";

void say_cut(const std::string& where, std::size_t all, std::size_t kept) {
  std::fprintf(stderr, "bascule: %s has %zu tokens and is cut to %zu\n", where.c_str(), all, kept);
}

}  // namespace

void check_utf8(std::string_view text, const std::string& where, const char* which) {
  const std::size_t byte = first_invalid_utf8(text);
  if (byte < text.size())
    throw Error(ErrorKind::kData, where, "byte " + std::to_string(byte) + which + " is not UTF-8", "write it in UTF-8");
}

bool are_lines_of_input(const std::vector<std::string>& texts) {
  if (texts == std::vector<std::string>{"-"}) return true;
  for (const std::string& text : texts) {
    if (!is_file(text)) continue;
    std::fprintf(stderr,
                 "bascule: the model reads texts: \"%s\" is taken as words, and the file of that name is not read\n",
                 printable_line(text).c_str());
  }
  return false;
}

EncodedText encode_text(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                        const std::string& where) {
  Texts texts{asked.first};
  if (asked.second) texts.second = *asked.second;
  const std::string_view second = texts.second.value_or("");
  check_utf8(texts.first, where, texts.second ? " of the first text" : "");
  check_utf8(second, where, " of the second text");
  EncodedText encoded;
  encoded.ids.resize(static_cast<std::size_t>(longest));
  std::vector<std::byte> scratch(tokenizer.scratch_bytes(std::max(texts.first.size(), second.size())));
  Encoded counts;
  BASCULE_CHECK(tokenizer.encode_into(texts, encoded.ids, &counts, scratch).ok());  // UTF-8, and room for it
  // Only a sequence that is full may have been cut.
  const std::size_t all =
      counts.tokens < longest ? static_cast<std::size_t>(counts.tokens) : tokenizer.encode(texts).size();
  encoded.ids.resize(static_cast<std::size_t>(counts.tokens));
  encoded.second_begin = static_cast<std::size_t>(counts.second_begin);
  if (all > encoded.ids.size()) say_cut(where, all, encoded.ids.size());
  return encoded;
}

EncodedText encode_places(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                          const std::string& where) {
  check_utf8(asked.first, where);
  EncodedText encoded;
  encoded.placed = tokenizer.place_tokens(asked.first);
  const std::size_t special = static_cast<std::size_t>(tokenizer.special_tokens(false));
  const std::size_t most = static_cast<std::size_t>(longest), room = most - special;
  if (encoded.placed.size() > room) {
    say_cut(where, encoded.placed.size() + special, most);
    encoded.placed.resize(room);
  }
  encoded.ids.assign(tokenizer.before().begin(), tokenizer.before().end());
  for (const PlacedToken& token : encoded.placed) encoded.ids.push_back(token.id);
  encoded.ids.insert(encoded.ids.end(), tokenizer.after().begin(), tokenizer.after().end());
  encoded.second_begin = encoded.ids.size();
  return encoded;
}

int end_with_document(const std::function<void()>& answer, const Json& answers, bool is_json) {
  const auto print = [&](const Error* error) {
    Json document = {{"texts", answers}};
    if (error != nullptr) document["error"] = error_json(*error);
    if (is_json) std::printf("%s\n", json_text(document).c_str());
  };
  try {
    answer();
  } catch (const Error& error) {
    if (answers.size() == 0) throw;
    std::fprintf(stderr, "%sbascule: %s\n", journal_error_mark(), error.what());
    print(&error);
    return exit_code(error.kind());
  }
  print(nullptr);
  return 0;
}

std::optional<std::string> InputLines::take_line(std::size_t max_bytes) {
  const std::size_t end = pending_.find('\n', begin_);
  if (std::min(end, pending_.size()) - begin_ > max_bytes)
    throw Error(ErrorKind::kData, kWhere, "a line has more than " + std::to_string(max_bytes) + " bytes");
  if (end == std::string::npos && !(is_at_end_ && begin_ < pending_.size())) return std::nullopt;
  std::string line = pending_.substr(begin_, end == std::string::npos ? end : end - begin_);
  begin_ = end == std::string::npos ? pending_.size() : end + 1;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

bool InputLines::fill(bool waits) {
  pending_.erase(0, begin_);
  begin_ = 0;
  while (!is_at_end_) {
    pollfd entry = {descriptor_, POLLIN, 0};
    const int ready = ::poll(&entry, 1, waits ? -1 : 0);
    if (ready == 0) return false;
    char block[1 << 16];
    const ssize_t count = ready < 0 ? -1 : ::read(descriptor_, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(ErrorKind::kData, kWhere, std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) {
      is_at_end_ = true;
      return true;
    }
    pending_.append(block, static_cast<std::size_t>(count));
    return true;
  }
  return false;
}

std::vector<std::string> InputLines::read(std::size_t most, std::size_t max_bytes) {
  std::vector<std::string> lines;
  while (lines.size() < most) {
    if (std::optional<std::string> line = take_line(max_bytes)) {
      lines.push_back(std::move(*line));
      continue;
    }
    if (!fill(lines.empty())) break;
  }
  return lines;
}

std::vector<std::string> all_lines() {
  InputLines lines(STDIN_FILENO);
  std::vector<std::string> all;
  for (std::vector<std::string> more; !(more = lines.read(256, kMostBytesOfALine)).empty();)
    std::move(more.begin(), more.end(), std::back_inserter(all));
  if (all.empty()) throw Error(ErrorKind::kData, kWhere, "has no lines", "write a text on each line");
  return all;
}

}  // namespace bascule
