// TextCount: counts the visible text of a streamed answer, over all choices. The gateway estimates the output from
// it if the engine does not report the output. The text of reasoning and of tools' names and arguments counts, too.
//
// Most events of a stream differ only in their text, so an event is first compared with the last one's bytes
// around its text. Part of a tally; works in place and allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gateway {

class TextCount {
 public:
  enum class Form : uint8_t { kChat, kMessages, kResponses };

  explicit TextCount(Form form) : form_(form) {}

  // Adds the data of one event, or a whole answer. True: apart from its text, the event equals the last one byte
  // for byte, so it has no other news.
  bool Add(std::string_view data);
  // Adds an item of a Responses stream that an event gives whole. Engines need not have sent its text before.
  void AddItem(std::string_view event);
  // Reads all items of a Responses object: the document, or the one that an event wraps.
  void AddOutput(std::string_view data);

  // Of UTF-8, after JSON's escapes are resolved.
  uint64_t bytes() const { return std::max(bytes_, item_bytes_); }
  // Events with text.
  uint64_t events() const { return events_ == 0 && item_bytes_ > 0 ? 1 : events_; }

 private:
  bool AddLikeLast(std::string_view data);
  bool BeginsLikeLast(std::string_view data) const;
  void AddAny(std::string_view data);
  bool IsText(std::string_view key) const;
  bool IsTextAsObject(std::string_view key) const;

  const Form form_;
  uint64_t bytes_ = 0;
  uint64_t events_ = 0;
  uint64_t item_bytes_ = 0;  // of whole items; text that came in pieces before is in `bytes_`, too
  // The last event with exactly one text: the bytes before the text, which end with its key, and those after it.
  std::array<char, 512> front_;
  size_t key_size_ = 0;
  size_t begin_ = 0;  // of the text
  std::array<char, 256> rest_;
  size_t rest_size_ = 0;
};

}  // namespace gateway
