// ContentKey: seals stored prompts and answers of one tenant with AES-256-GCM.
//
//   sealed = salt (16) | ciphertext | tag (16)
//
// Each text has its own key, HMAC-SHA-256(key, label | salt), so that no nonce is ever used twice with a key,
// however many texts a tenant stores. Destroying the key makes all that it sealed unreadable; the chain of the
// ledger does not change.
//
// Immutable; any thread. The destructor wipes the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::ledger {

class ContentKey {
 public:
  using Bytes = std::array<uint8_t, 32>;
  static constexpr size_t kSaltBytes = 16;
  static constexpr size_t kOverhead = kSaltBytes + 16;  // bytes that sealing adds to a text
  static constexpr size_t kMaxId = 32;

  // `id` is the name of the key in records, with at most kMaxId characters.
  ContentKey(std::string id, const Bytes& bytes);
  ~ContentKey();
  ContentKey(const ContentKey&) = delete;
  ContentKey& operator=(const ContentKey&) = delete;

  static Bytes RandomBytes();

  const std::string& id() const { return id_; }
  const Bytes& bytes() const { return bytes_; }

  // Writes text.size() + kOverhead bytes.
  void Seal(std::string_view text, char* to) const;
  std::string Seal(std::string_view text) const;
  // None if the text was not sealed under this key, or was changed.
  std::optional<std::string> Open(std::string_view sealed) const;

 private:
  const std::string id_;
  Bytes bytes_;
};

}  // namespace gateway::ledger
