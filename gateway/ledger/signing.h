// The Ed25519 key that signs checkpoints: `signing.key` (PKCS#8 PEM, mode 0600), created at the first start, and
// `signing.pub` (SubjectPublicKeyInfo PEM), which an auditor keeps elsewhere. Loaded once; const from any thread.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/ledger/chain.h"

namespace gateway::ledger {

using Signature = std::array<uint8_t, 64>;

class PublicKey {
 public:
  static absl::StatusOr<PublicKey> FromPem(std::string_view pem);
  // Reads a file with the content of signing.pub.
  static absl::StatusOr<PublicKey> Load(const std::string& path);

  bool Verify(std::string_view message, const Signature& signature) const;
  std::string Pem() const;
  // The first 16 hex digits of the SHA-256 of the key's 32 bytes; they identify the key in checkpoints.
  std::string Fingerprint() const;

 private:
  friend class SigningKey;
  explicit PublicKey(std::shared_ptr<void> key) : key_(std::move(key)) {}
  std::shared_ptr<void> key_;
};

class SigningKey {
 public:
  // Loads `dir`/signing.key, or creates it if it is missing and `may_create`. Refuses a key that other users may
  // read.
  static absl::StatusOr<SigningKey> LoadOrCreate(const std::string& dir, bool may_create);

  Signature Sign(std::string_view message) const;
  const PublicKey& public_key() const { return public_; }

 private:
  explicit SigningKey(std::shared_ptr<void> key) : public_(std::move(key)) {}
  PublicKey public_;
};

// The bytes that a checkpoint's signature covers: a label, the link before it (32 bytes), and its body up to the
// signature.
std::string CheckpointMessage(const Digest& previous, std::string_view unsigned_body);

// Whether a checkpoint has a valid signature by this key for this place in the chain.
bool CheckpointIsSigned(const LineParts& checkpoint, const Digest& previous, const PublicKey& key);

}  // namespace gateway::ledger
