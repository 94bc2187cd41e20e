// TextCount: how much text the events of a streamed answer have shown, over all choices: what the output is
// counted by where the engine does not report it. The text of reasoning and of tools' arguments counts, too.
//
// Events of a stream mostly differ in their text alone, so that one is recognized by what surrounded the text
// of the last. Part of a tally; works in place and allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gateway {

class TextCount {
 public:
  enum class Form : uint8_t { kChat, kMessages, kResponses };

  explicit TextCount(Form form) : form_(form) {}

  // The data of one event, or a whole answer. True when it is the last event but for its text, byte for byte:
  // then it says nothing else that the last one did not say.
  bool Add(std::string_view data);

  uint64_t bytes() const { return bytes_; }    // of UTF-8, without the escapes of JSON
  uint64_t events() const { return events_; }  // that had any text

 private:
  bool AddLikeLast(std::string_view data);
  bool BeginsLikeLast(std::string_view data) const;
  void AddAny(std::string_view data);
  bool IsText(std::string_view key) const;

  const Form form_;
  uint64_t bytes_ = 0;
  uint64_t events_ = 0;
  // The last event with one text: the bytes before the text, which end with its key, and the bytes behind
  // it.
  std::array<char, 512> front_;
  size_t key_size_ = 0;
  size_t begin_ = 0;  // of the text
  std::array<char, 256> rest_;
  size_t rest_size_ = 0;
};

}  // namespace gateway
