// SPDX-License-Identifier: Apache-2.0
#include <xxhash.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "src/base/digest.h"
#include "src/base/paths.h"
#include "src/index/manifest_readers.h"
#include "src/index/tar_reader.h"
#include "src/json/json.h"

namespace bascule {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

// A member's name taken apart at the first dot of its base name. False: it belongs to no sample.
bool take_apart(std::string_view name, std::string_view* key, std::string* ending) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base || dot + 1 == name.size()) return false;
  // WebDataset keeps data about the shard itself in files and folders with such names.
  const std::string_view top = name.substr(0, name.find('/'));
  if (top.size() >= 4 && top.substr(0, 2) == "__" && top.substr(top.size() - 2) == "__") return false;
  *key = name.substr(0, dot);
  *ending = lower(name.substr(dot + 1));
  return true;
}

std::string_view without_line_break(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

// Members of one sample.
struct Sample {
  struct Text {
    bool is_there = false;
    std::string member;
    std::string contents;
  };
  bool is_any = false;
  std::string key;
  std::string unread;  // the first member that is a picture by its last ending, and not `picture`
  std::int64_t unread_pictures = 0;
  std::string picture;  // the member; empty: none yet
  PicturePlace place;
  Text caption, caption_txt, second_caption, json, label, label_cls;
};

class ShardReader {
 public:
  ShardReader(const ManifestColumns& columns, ManifestBuilder* builder, Digest* digest)
      : builder_(builder),
        digest_(digest),
        image_(columns.image == ManifestColumns().image ? "" : lower(columns.image)),
        caption_(columns.text),
        second_caption_(columns.second_text),
        label_(columns.label),
        columns_(columns) {}

  void read(std::uint32_t number) {
    number_ = number;
    shard_ = &builder_->shards()[number];
    keys_.clear();
    TarReader tar(*shard_);
    digest_->add_number(tar.bytes());
    TarMember member;
    std::string_view key;
    std::string ending;
    while (tar.next(&member)) {
      digest_->add_number(member.name.size());
      digest_->add(member.name.data(), member.name.size());
      digest_->add_number(member.offset);
      digest_->add_number(member.bytes);
      if (!take_apart(member.name, &key, &ending)) continue;
      if (key != sample_.key || !sample_.is_any) begin_sample(key);
      take(tar, member, ending);
    }
    end_sample();
  }

  // The unread pictures of all shards read.
  UnreadPictures unread() const {
    return {unread_.count, unread_.why, "rename the members of such samples so that their names have one dot"};
  }

 private:
  Error refuse(const std::string& member, const std::string& what, const std::string& what_to_do = "") const {
    return Error{ErrorKind::kData, *shard_ + ": " + member, what, what_to_do};
  }

  void begin_sample(std::string_view key) {
    end_sample();
    sample_.is_any = true;
    sample_.key = key;
  }

  bool is_picture(const std::string& ending) const {
    return image_.empty() ? is_picture_ending(ending) : ending == image_;
  }

  void take(TarReader& tar, const TarMember& member, const std::string& ending) {
    if (is_picture(ending)) return take_picture(member);
    if (!caption_.empty() && ending == lower(caption_)) {
      take_text(tar, member, &sample_.caption);
    } else if (ending == "txt" && caption_ == ManifestColumns().text) {
      take_text(tar, member, &sample_.caption_txt);
    } else if (!second_caption_.empty() && ending == lower(second_caption_)) {
      take_text(tar, member, &sample_.second_caption);
    } else if (ending == "json") {
      take_text(tar, member, &sample_.json);
    } else if (!label_.empty() && ending == lower(label_)) {
      take_text(tar, member, &sample_.label);
    } else if (!label_.empty() && ending == "cls") {
      take_text(tar, member, &sample_.label_cls);
    } else if (const std::string last = ending.substr(ending.rfind('.') + 1);
               is_picture_ending(last) || is_other_picture_ending(last)) {
      if (++sample_.unread_pictures == 1) sample_.unread = member.name;
    }
  }

  void take_picture(const TarMember& member) {
    if (!sample_.picture.empty()) {
      throw refuse(member.name, "a second picture for this sample, besides " + sample_.picture,
                   "select an extension with data.image_column");
    }
    if (member.bytes > std::numeric_limits<std::uint32_t>::max()) throw refuse(member.name, "larger than 4 GiB");
    sample_.picture = member.name;
    sample_.place = {member.offset, static_cast<std::uint32_t>(member.bytes), number_};
  }

  void take_text(TarReader& tar, const TarMember& member, Sample::Text* text) {
    if (text->is_there) throw refuse(member.name, "occurs twice");
    text->is_there = true;
    text->member = member.name;
    text->contents = tar.contents(member);
    digest_->add(text->contents.data(), text->contents.size());
  }

  void end_sample() {
    const Sample& s = sample_;
    const bool is_used = !s.picture.empty() || s.caption.is_there || s.caption_txt.is_there ||
                         s.second_caption.is_there || s.json.is_there || s.label.is_there || s.label_cls.is_there;
    if (s.is_any && is_used) read_row(columns_, [&] { add_sample(); });
    if (s.unread_pictures > 0 && !is_used) {
      if (unread_.count == 0)
        unread_.why = "a sample's name ends at its first dot, and what follows it in \"" + s.unread + "\" is " +
                      (image_.empty() ? std::string("none of ") + kPictureEndings : "not ." + image_);
      unread_.count += s.unread_pictures;
    }
    sample_ = Sample();
  }

  void add_sample() {
    const Sample& s = sample_;
    if (s.picture.empty()) {
      const Sample::Text* const texts[] = {&s.caption, &s.caption_txt, &s.second_caption,
                                           &s.json,    &s.label,       &s.label_cls};
      const auto* const one =
          *std::find_if(std::begin(texts), std::end(texts), [](auto* text) { return text->is_there; });
      throw refuse(one->member, "no picture belongs to it: no " + s.key + (image_.empty() ? ".jpg" : "." + image_),
                   "keep the members of a sample together, or set data.image_column to another extension");
    }
    const Json json = s.json.is_there ? parse_row() : Json();
    const std::string caption = caption_of(json, caption_, {&s.caption, &s.caption_txt});
    const std::string second_caption = caption_of(json, second_caption_, {&s.second_caption});
    const ManifestLabel label = label_.empty() ? ManifestLabel() : label_of(json);
    // A key that comes again would be the same sample twice, or two halves of one.
    const std::uint64_t hash = XXH3_64bits(s.key.data(), s.key.size());
    const auto place = keys_.find(hash);
    if (place != keys_.end()) {
      const std::string_view other = builder_->name(place->second);
      std::string_view key;
      std::string ending;
      if (take_apart(other, &key, &ending) && key == s.key) {
        throw refuse(s.picture, "the sample " + s.key + " occurs twice", "give every sample of a shard its own key");
      }
    }
    const std::string_view texts[] = {caption, second_caption};
    builder_->add_member(s.picture, s.place, {texts, 2}, label);
    keys_.emplace(hash, builder_->rows() - 1);
  }

  Json parse_row() const {
    Json json = parse_json(sample_.json.contents, *shard_ + ": " + sample_.json.member);
    if (!json.is_object()) throw refuse(sample_.json.member, "not a JSON object");
    return json;
  }

  const Json* find_value(const Json& json, const std::string& column) const {
    return json.find(column);  // nothing where there is no document
  }

  // The first of the members that is there, else the string of the document. Empty without a column.
  std::string caption_of(const Json& json, const std::string& column,
                         std::initializer_list<const Sample::Text*> members) const {
    if (column.empty()) return "";
    for (const Sample::Text* text : members) {
      if (text->is_there) return std::string(without_line_break(text->contents));
    }
    const Json* const value = find_value(json, column);
    if (value == nullptr) {
      throw refuse(sample_.picture,
                   "no caption belongs to it: no " + sample_.key +
                       (column == ManifestColumns().text ? ".txt" : "." + column) + " and no \"" + column + "\" in " +
                       sample_.key + ".json",
                   column == caption_
                       ? "keep the members of a sample together, or set data.caption_column to another extension or key"
                       : "keep the members of a sample together");
    }
    if (!value->is_string()) {
      throw refuse(sample_.json.member, "\"" + column + "\" is " + json_text(*value) + ", not a string");
    }
    return value->string();
  }

  ManifestLabel label_of(const Json& json) const {
    if (sample_.label.is_there) return label_of_member(sample_.label);
    if (const Json* const value = find_value(json, label_)) {
      return label_of_value(*value, columns_, *shard_ + ": " + sample_.json.member);
    }
    if (sample_.label_cls.is_there) return label_of_member(sample_.label_cls);
    if (columns_.optional_labels) return {};
    throw refuse(sample_.picture,
                 "no label belongs to it: no " + sample_.key + "." + label_ + ", no \"" + label_ + "\" in " +
                     sample_.key + ".json, no " + sample_.key + ".cls",
                 "keep the members of a sample together, or correct data.label_column");
  }

  ManifestLabel label_of_member(const Sample::Text& text) const {
    const std::string_view value = without_line_break(text.contents);
    if (is_no_label(value, columns_)) return {};
    ManifestLabel label = label_of_text(value, columns_);
    if (label.is_any()) return label;
    throw refuse(text.member, "is \"" + std::string(value.substr(0, 40)) + "\"",
                 labels_to_use(columns_) + on_leading_zeros(value));
  }

  ManifestBuilder* builder_;
  Digest* digest_;
  std::string image_;  // empty: every is_picture_ending()
  std::string caption_, second_caption_;
  std::string label_;
  const ManifestColumns& columns_;
  std::uint32_t number_ = 0;
  const std::string* shard_ = nullptr;
  Sample sample_;
  UnreadPictures unread_;
  std::unordered_map<std::uint64_t, std::int64_t> keys_;  // hash of a key of this shard -> row; only looked up
};

}  // namespace

std::uint64_t read_shards(const ManifestColumns& columns, ManifestBuilder* builder) {
  if (columns.image.empty()) {
    throw Error{ErrorKind::kData, builder->shards().front(), "a shard holds pictures, which this model does not read",
                "use .jsonl, .json, .csv or .tsv"};
  }
  Digest digest;
  ShardReader reader(columns, builder, &digest);
  for (std::size_t i = 0; i < builder->shards().size(); ++i) reader.read(static_cast<std::uint32_t>(i));
  builder->add_unread(reader.unread());
  return digest.value();
}

}  // namespace bascule
