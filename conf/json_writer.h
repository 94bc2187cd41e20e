// Appends JSON to a text, without a tree. The comma is put where the last byte calls for one, so writers of
// one text can be nested freely. Equal calls give equal bytes: numbers stand in their shortest exact form and
// must be finite.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace conf {

class JsonWriter {
 public:
  enum class Layout : uint8_t {
    kOneLine,
    kItemPerLine,  // of the lists in the outermost object, so that two files can be compared line by line
  };

  // `out` must outlive it.
  explicit JsonWriter(std::string& out, Layout layout = Layout::kOneLine) : out_(&out), layout_(layout) {}

  JsonWriter& Open(char bracket);  // '{' or '['
  JsonWriter& Close(char bracket);
  JsonWriter& Key(std::string_view key);  // and what follows it
  JsonWriter& Item();                     // begins an item of a list; needed where the layout breaks lines
  JsonWriter& String(std::string_view value);
  JsonWriter& Number(std::signed_integral auto value) { return Whole(int64_t{value}); }
  JsonWriter& Number(std::unsigned_integral auto value) { return Whole(uint64_t{value}); }
  JsonWriter& Number(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);

  // Truncates to an earlier size(), to drop an empty field.
  size_t size() const { return out_->size(); }
  void TruncateTo(size_t size) { out_->resize(size); }

 private:
  bool breaks() const { return layout_ == Layout::kItemPerLine && depth_ <= 2; }
  void Separate();
  JsonWriter& Whole(int64_t value);
  JsonWriter& Whole(uint64_t value);

  std::string* out_;
  Layout layout_;
  int depth_ = 0;
};

}  // namespace conf
