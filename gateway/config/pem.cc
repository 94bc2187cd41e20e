#include "gateway/config/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

namespace gateway::config {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using CertificatePtr = std::unique_ptr<X509, Free>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free>;

// Without it OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) {
  return 0;
}

std::unique_ptr<BIO, Free> Memory(std::string_view pem) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

CertificatePtr ParseCertificate(std::string_view pem) {
  const auto memory = Memory(pem);
  CertificatePtr out(PEM_read_bio_X509(memory.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return out;
}

KeyPtr ParseKey(std::string_view pem) {
  const auto memory = Memory(pem);
  KeyPtr out(PEM_read_bio_PrivateKey(memory.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return out;
}

}  // namespace

std::string WrongCertificate(std::string_view pem) {
  return ParseCertificate(pem) != nullptr ? "" : "does not hold a certificate in PEM";
}

std::string WrongPrivateKey(std::string_view pem) {
  return ParseKey(pem) != nullptr ? "" : "does not hold a private key in PEM without a passphrase";
}

std::string WrongKeyPair(std::string_view certificate_pem, std::string_view key_pem) {
  const CertificatePtr certificate = ParseCertificate(certificate_pem);
  const KeyPtr key = ParseKey(key_pem);
  const bool match =
      certificate != nullptr && key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return match ? "" : "does not belong to the certificate";
}

}  // namespace gateway::config
