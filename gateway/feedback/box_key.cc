#include "gateway/feedback/box_key.h"

#include <absl/strings/escaping.h>
#include <sodium.h>

#include <cstdlib>

#include "conf/text.h"

namespace gateway::feedback {
namespace {

static_assert(crypto_box_PUBLICKEYBYTES == 32 && crypto_box_SECRETKEYBYTES == 32);

const uint8_t* OctetsOf(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// The library fails only if it has no source of random bytes.
void BeginSodium() {
  if (sodium_init() < 0) std::abort();
}

}  // namespace

BoxKey::BoxKey() {
  BeginSodium();
  crypto_box_keypair(public_.data(), secret_.data());
  public_text_ = absl::Base64Escape({reinterpret_cast<const char*>(public_.data()), public_.size()});
}

BoxKey::~BoxKey() {
  sodium_memzero(secret_.data(), secret_.size());
}

std::optional<std::string> BoxKey::Open(std::string_view sealed) const {
  if (sealed.size() < crypto_box_SEALBYTES) return std::nullopt;
  std::string text(sealed.size() - crypto_box_SEALBYTES, '\0');
  const int opened = crypto_box_seal_open(reinterpret_cast<uint8_t*>(text.data()), OctetsOf(sealed),
                                          sealed.size(), public_.data(), secret_.data());
  if (opened != 0) return std::nullopt;
  return text;
}

std::optional<std::string> SealTo(std::string_view public_half, std::string_view text) {
  BeginSodium();
  std::string key;
  if (!absl::Base64Unescape(conf::Abseil(public_half), &key) || key.size() != crypto_box_PUBLICKEYBYTES)
    return std::nullopt;
  std::string sealed(text.size() + crypto_box_SEALBYTES, '\0');
  const int done =
      crypto_box_seal(reinterpret_cast<uint8_t*>(sealed.data()), OctetsOf(text), text.size(), OctetsOf(key));
  if (done != 0) return std::nullopt;
  return sealed;
}

}  // namespace gateway::feedback
