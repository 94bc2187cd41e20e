#include "gateway/ledger/content_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace gateway::ledger {
namespace {

constexpr std::string_view kLabel = "tidegate-content-v1\n";
constexpr size_t kTagBytes = 16;
// Constant, because each key seals only one text.
constexpr std::array<uint8_t, 12> kNonce{};

// The library fails only if it has no memory or no source of random bytes.
void MustSucceed(bool ok) {
  if (!ok) std::abort();
}

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

uint8_t* Octets(char* text) {
  return reinterpret_cast<uint8_t*>(text);
}
const uint8_t* Octets(const char* text) {
  return reinterpret_cast<const uint8_t*>(text);
}

// The key of one text.
class TextKey {
 public:
  TextKey(const ContentKey::Bytes& key, const char* salt) {
    std::array<uint8_t, kLabel.size() + ContentKey::kSaltBytes> message;
    std::memcpy(message.data(), kLabel.data(), kLabel.size());
    std::memcpy(message.data() + kLabel.size(), salt, ContentKey::kSaltBytes);
    unsigned size = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(), message.size(),
         bytes_.data(), &size);
  }
  ~TextKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  TextKey(const TextKey&) = delete;
  TextKey& operator=(const TextKey&) = delete;

  const uint8_t* data() const { return bytes_.data(); }

 private:
  std::array<uint8_t, 32> bytes_{};
};

}  // namespace

ContentKey::ContentKey(std::string id, const Bytes& bytes) : id_(std::move(id)), bytes_(bytes) {}

ContentKey::~ContentKey() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

ContentKey::Bytes ContentKey::RandomBytes() {
  Bytes bytes;
  MustSucceed(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return bytes;
}

void ContentKey::Seal(std::string_view text, char* to) const {
  MustSucceed(RAND_bytes(Octets(to), kSaltBytes) == 1);
  const TextKey key(bytes_, to);
  const Context context(EVP_CIPHER_CTX_new());
  char* const body = to + kSaltBytes;
  int written = 0;
  int rest = 0;
  const bool sealed =
      context &&
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(), kNonce.data()) == 1 &&
      (text.empty() || EVP_EncryptUpdate(context.get(), Octets(body), &written, Octets(text.data()),
                                         static_cast<int>(text.size())) == 1) &&
      EVP_EncryptFinal_ex(context.get(), Octets(body) + written, &rest) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, body + text.size()) == 1;
  MustSucceed(sealed);
}

std::string ContentKey::Seal(std::string_view text) const {
  std::string sealed(text.size() + kOverhead, '\0');
  Seal(text, sealed.data());
  return sealed;
}

std::optional<std::string> ContentKey::Open(std::string_view sealed) const {
  if (sealed.size() < kOverhead || sealed.size() > std::numeric_limits<int>::max()) return std::nullopt;
  const TextKey key(bytes_, sealed.data());
  const std::string_view body = sealed.substr(kSaltBytes, sealed.size() - kOverhead);
  std::array<uint8_t, kTagBytes> tag;
  std::memcpy(tag.data(), sealed.data() + sealed.size() - kTagBytes, kTagBytes);
  std::string text(body.size(), '\0');
  const Context context(EVP_CIPHER_CTX_new());
  int written = 0;
  int rest = 0;
  const bool opened =
      context &&
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key.data(), kNonce.data()) == 1 &&
      (body.empty() || EVP_DecryptUpdate(context.get(), Octets(text.data()), &written, Octets(body.data()),
                                         static_cast<int>(body.size())) == 1) &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context.get(), Octets(text.data()) + written, &rest) == 1;
  if (!opened) return std::nullopt;
  return text;
}

}  // namespace gateway::ledger
