#include "gateway/ledger/signing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "conf/hex.h"
#include "conf/text.h"
#include "gateway/net/files.h"

namespace gateway::ledger {
namespace {

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioFree>;
struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using DigestContext = std::unique_ptr<EVP_MD_CTX, FreeDigest>;

constexpr std::string_view kSignatureKey = ",\"signature\":\"";

EVP_PKEY* Pkey(const std::shared_ptr<void>& key) {
  return static_cast<EVP_PKEY*>(key.get());
}
std::shared_ptr<void> Own(EVP_PKEY* key) {
  return {key, [](void* p) { EVP_PKEY_free(static_cast<EVP_PKEY*>(p)); }};
}
Bio Reading(std::string_view pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}
std::string Content(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}
const unsigned char* Bytes(std::string_view s) {
  return reinterpret_cast<const unsigned char*>(s.data());
}

void Require(bool ok) {
  if (!ok) std::abort();
}

bool IsEd25519(EVP_PKEY* key) {
  return key != nullptr && EVP_PKEY_is_a(key, "ED25519") == 1;
}

}  // namespace

absl::StatusOr<PublicKey> PublicKey::FromPem(std::string_view pem) {
  const Bio bio = Reading(pem);
  std::shared_ptr<void> key = Own(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
  if (!IsEd25519(Pkey(key))) return absl::InvalidArgumentError("not an Ed25519 public key in PEM form");
  return PublicKey(std::move(key));
}

absl::StatusOr<PublicKey> PublicKey::Load(const std::string& path) {
  absl::StatusOr<std::string> pem = net::ReadFile(path, 64 * 1024);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<PublicKey> key = FromPem(*pem);
  if (!key.ok()) {
    return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("{}: {}", path, conf::Std(key.status().message()))));
  }
  return key;
}

bool PublicKey::Verify(std::string_view message, const Signature& signature) const {
  const DigestContext context(EVP_MD_CTX_new());
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, Pkey(key_)) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), signature.size(), Bytes(message),
                          message.size()) == 1;
}

std::string PublicKey::Pem() const {
  const Bio bio(BIO_new(BIO_s_mem()));
  Require(PEM_write_bio_PUBKEY(bio.get(), Pkey(key_)) == 1);
  return Content(bio.get());
}

std::string PublicKey::Fingerprint() const {
  Digest raw;
  size_t size = raw.size();
  Require(EVP_PKEY_get_raw_public_key(Pkey(key_), raw.data(), &size) == 1);
  const Digest digest = plugins::auth::Sha256({reinterpret_cast<const char*>(raw.data()), size});
  return conf::Hex(std::span(digest).first(8));
}

absl::StatusOr<SigningKey> SigningKey::LoadOrCreate(const std::string& dir, bool may_create) {
  const std::string path = dir + "/signing.key";
  absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDONLY);
  if (file.ok()) {
    struct stat info{};
    if (fstat(file->get(), &info) != 0) return net::SystemError("stat", path, errno);
    if ((info.st_mode & 077) != 0) {
      return absl::FailedPreconditionError(conf::Abseil(fmt::format(
          "{} has mode {:04o}, but only its owner may read it: run chmod 600", path, info.st_mode & 07777)));
    }
    absl::StatusOr<std::string> pem = net::ReadAll(file->get(), path, 64 * 1024);
    if (!pem.ok()) return pem.status();
    const Bio bio = Reading(*pem);
    std::shared_ptr<void> key = Own(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
    if (!IsEd25519(Pkey(key))) {
      return absl::InvalidArgumentError(conf::Abseil(path + ": not an Ed25519 private key in PEM form"));
    }
    return SigningKey(std::move(key));
  }
  if (!absl::IsNotFound(file.status())) return file.status();
  if (!may_create) {
    return absl::FailedPreconditionError(
        conf::Abseil(fmt::format("{} is missing, but the ledger already has records: restore the key from a "
                                 "backup, or move {} aside to begin a new ledger",
                                 path, dir)));
  }
  std::shared_ptr<void> key = Own(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  Require(key != nullptr);
  const Bio bio(BIO_new(BIO_s_mem()));
  Require(PEM_write_bio_PrivateKey(bio.get(), Pkey(key), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  if (absl::Status written = net::ReplaceFile(path, Content(bio.get()), 0600); !written.ok()) return written;
  return SigningKey(std::move(key));
}

Signature SigningKey::Sign(std::string_view message) const {
  const DigestContext context(EVP_MD_CTX_new());
  Signature signature;
  size_t size = signature.size();
  Require(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, Pkey(public_.key_)) == 1);
  Require(EVP_DigestSign(context.get(), signature.data(), &size, Bytes(message), message.size()) == 1);
  return signature;
}

std::string CheckpointMessage(const Digest& previous, std::string_view unsigned_body) {
  std::string message = "tidegate-checkpoint-v1\n";
  message.append(reinterpret_cast<const char*>(previous.data()), previous.size());
  return message.append(unsigned_body);
}

bool CheckpointIsSigned(const LineParts& checkpoint, const Digest& previous, const PublicKey& key) {
  const size_t at = checkpoint.body.rfind(kSignatureKey);
  if (at == std::string_view::npos) return false;
  std::string_view hex = checkpoint.body.substr(at + kSignatureKey.size());
  if (hex.empty() || hex.back() != '"') return false;
  hex.remove_suffix(1);
  Signature signature;
  return conf::ParseHex(hex, signature) &&
         key.Verify(CheckpointMessage(previous, checkpoint.body.substr(0, at)), signature);
}

}  // namespace gateway::ledger
