// SHA-256 over what comes in pieces, and the digests of the configuration. Any thread; no shared state.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace plugins::weights {

// The 64 lower-case hex digits of "sha256:HEX"; nothing for any other text.
std::optional<std::string> HexOfDigest(std::string_view text);

class Hasher {
 public:
  Hasher();
  void Update(std::string_view bytes);
  // The digest of everything so far, as 64 hex digits. Begins again.
  std::string TakeHex();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const;
  };
  void Begin();

  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

std::string Sha256Hex(std::string_view text);

}  // namespace plugins::weights
