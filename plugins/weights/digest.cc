#include "plugins/weights/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <span>

#include "conf/hex.h"

namespace plugins::weights {

std::optional<std::string> HexOfDigest(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr size_t kDigits = 64;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != kDigits || !std::ranges::all_of(text, is_hex)) return std::nullopt;
  return std::string(text);
}

void Hasher::Free::operator()(EVP_MD_CTX* context) const {
  EVP_MD_CTX_free(context);
}

Hasher::Hasher() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  Begin();
}

void Hasher::Begin() {
  if (EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}

void Hasher::Update(std::string_view bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string Hasher::TakeHex() {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
  Begin();
  return conf::Hex(std::span<const uint8_t>(digest).first(size));
}

std::string Sha256Hex(std::string_view text) {
  Hasher hasher;
  hasher.Update(text);
  return hasher.TakeHex();
}

}  // namespace plugins::weights
