// BoxKey: a key pair of this process. Others seal texts to its public half, and only this process can open them; so
// they can be passed through a store whose administrators must not read them. Sealed boxes of libsodium (X25519,
// XSalsa20-Poly1305), each with a sender's key of its own.
//
// Immutable; any thread. The destructor wipes the secret half.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gateway::feedback {

class BoxKey {
 public:
  // A new pair.
  BoxKey();
  ~BoxKey();
  BoxKey(const BoxKey&) = delete;
  BoxKey& operator=(const BoxKey&) = delete;

  // In base64.
  const std::string& public_half() const { return public_text_; }
  // None: the text was not sealed to this key, or was changed.
  std::optional<std::string> Open(std::string_view sealed) const;

 private:
  std::array<uint8_t, 32> public_{};
  std::array<uint8_t, 32> secret_{};
  std::string public_text_;
};

// Seals a text to the public half of a key; none: it is no such key.
std::optional<std::string> SealTo(std::string_view public_half, std::string_view text);

}  // namespace gateway::feedback
