// ContentKey: the key under which stored prompts and answers of one tenant are sealed: AES-256-GCM.
//
//   sealed = salt (16) | ciphertext | tag (16)
//
// Each text has a key of its own, HMAC-SHA-256(key, label | salt), so that no nonce is ever used twice with a
// key, however many texts a tenant stores. Destroying the key destroys what it sealed, and the chain of
// the ledger stays as it is.
//
// Immutable; any thread. The bytes are wiped at the end.
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
  static constexpr size_t kOverhead = kSaltBytes + 16;  // of the sealed form over the text
  static constexpr size_t kMaxId = 32;

  // `id` is the name of the key in records; at most kMaxId characters.
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
  // Nothing when it was not sealed under this key, or was changed.
  std::optional<std::string> Open(std::string_view sealed) const;

 private:
  const std::string id_;
  Bytes bytes_;
};

}  // namespace gateway::ledger
