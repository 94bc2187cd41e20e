// A key and a certificate signed by itself, in files: its own authority. For 127.0.0.1, or for a name that a
// test gives.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "tests/support/temp_dir.h"

namespace tests {

class TlsFiles {
 public:
  explicit TlsFiles(std::string subject = "IP:127.0.0.1") : subject_(std::move(subject)) { Renew(); }

  // New ones in the same files, with the next serial number.
  void Renew() {
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509*)> cert(X509_new(), X509_free);
    X509_set_version(cert.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
    X509_set_pubkey(cert.get(), key.get());
    X509_NAME* name = X509_get_subject_name(cert.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1,
                               -1, 0);
    X509_set_issuer_name(cert.get(), name);
    const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, subject_.c_str()), X509_EXTENSION_free);
    X509_add_ext(cert.get(), extension.get(), -1);
    X509_sign(cert.get(), key.get(), EVP_sha256());
    std::FILE* out = std::fopen(this->key().c_str(), "w");
    PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(out);
    out = std::fopen(certificate().c_str(), "w");
    PEM_write_X509(out, cert.get());
    std::fclose(out);
  }

  std::string certificate() const { return folder_ / "cert.pem"; }
  std::string key() const { return folder_ / "key.pem"; }
  long serial() const { return serial_; }

 private:
  const std::string subject_;
  long serial_ = 0;
  TempDir folder_;
};

}  // namespace tests
