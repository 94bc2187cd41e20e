// ContentDecoder: undoes the content coding of an answer (gzip or deflate), piece by piece and sans-IO.
//
// The gateway asks for answers without a coding, since it has to read them. Some servers code all the same. A
// thousandfold expansion is what deflate can do, so the decoded bytes of one answer are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gateway::net::http {

class ContentDecoder {
 public:
  // The bound of one decoded answer.
  static constexpr uint64_t kMostBytes = 64u << 20;

  enum class Coding : uint8_t { kNone, kDeflated, kUnknown };
  // The coding of a value of Content-Encoding; empty and `identity` are kNone.
  static Coding CodingOf(std::string_view content_encoding);

  ContentDecoder();
  ~ContentDecoder();
  ContentDecoder(const ContentDecoder&) = delete;
  ContentDecoder& operator=(const ContentDecoder&) = delete;

  // Appends what `coded` decodes to. False for bytes that are not of the coding, and beyond kMostBytes.
  bool Decode(std::string_view coded, std::string& decoded);
  // The coding's own end has come.
  bool whole() const { return whole_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  uint64_t decoded_ = 0;
  bool whole_ = false;
};

}  // namespace gateway::net::http
