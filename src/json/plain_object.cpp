// SPDX-License-Identifier: Apache-2.0
#include "src/json/plain_object.h"

namespace bascule {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : place_(text.data()), end_(text.data() + text.size()) {}

  void skip_blanks() noexcept {
    while (place_ != end_ && (*place_ == ' ' || *place_ == '\t' || *place_ == '\r' || *place_ == '\n')) ++place_;
  }
  bool at_end() const noexcept { return place_ == end_; }
  bool take(char c) noexcept {
    if (place_ == end_ || *place_ != c) return false;
    ++place_;
    return true;
  }

  // False: an escape, a control character, or no string.
  bool string(std::string_view* text) noexcept {
    if (!take('"')) return false;
    const char* const begin = place_;
    while (place_ != end_ && *place_ != '"' && *place_ != '\\' && static_cast<unsigned char>(*place_) >= 0x20) ++place_;
    *text = std::string_view(begin, static_cast<std::size_t>(place_ - begin));
    return take('"');
  }

  bool word(std::string_view text) noexcept {
    if (static_cast<std::size_t>(end_ - place_) < text.size() || std::string_view(place_, text.size()) != text) {
      return false;
    }
    place_ += text.size();
    return true;
  }

  // At most 18 digits, without fraction and exponent.
  bool integer(std::int64_t* value) noexcept {
    const bool is_negative = take('-');
    const char* const begin = place_;
    *value = 0;
    for (; place_ != end_ && *place_ >= '0' && *place_ <= '9'; ++place_) {
      if (place_ - begin < 18) *value = 10 * *value + (*place_ - '0');
    }
    const std::ptrdiff_t digits = place_ - begin;
    if (digits == 0 || digits > 18 || (digits > 1 && *begin == '0')) return false;
    if (is_negative) *value = -*value;
    return true;  // a fraction or exponent is no comma and no brace
  }

  bool value(PlainMember* member) noexcept {
    if (place_ == end_) return false;
    switch (*place_) {
      case '"': member->kind = PlainKind::kString; return string(&member->text);
      case 't': member->kind = PlainKind::kTrue; return word("true");
      case 'f': member->kind = PlainKind::kFalse; return word("false");
      case 'n': member->kind = PlainKind::kNull; return word("null");
      default: member->kind = PlainKind::kInteger; return integer(&member->integer);
    }
  }

 private:
  const char* place_;
  const char* end_;
};

}  // namespace

bool PlainObject::read(std::string_view text) noexcept {
  Reader reader(text);
  count_ = 0;
  reader.skip_blanks();
  if (!reader.take('{')) return false;
  do {
    if (count_ == kMostMembers) return false;
    PlainMember& member = members_[count_];
    reader.skip_blanks();
    if (!reader.string(&member.key) || find(member.key) != nullptr) return false;  // {} and keys given twice too
    reader.skip_blanks();
    if (!reader.take(':')) return false;
    reader.skip_blanks();
    if (!reader.value(&member)) return false;
    ++count_;
    reader.skip_blanks();
  } while (reader.take(','));
  if (!reader.take('}')) return false;
  reader.skip_blanks();
  return reader.at_end();
}

const PlainMember* PlainObject::find(std::string_view key) const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (members_[i].key == key) return &members_[i];
  }
  return nullptr;
}

}  // namespace bascule
