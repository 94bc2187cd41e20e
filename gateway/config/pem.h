// Checks of certificates and keys in PEM files, before a listener needs them.
#pragma once

#include <string>
#include <string_view>

namespace gateway::config {

// The problem, or an empty string. Never repeats the contents of the files.
std::string WrongCertificate(std::string_view pem);
std::string WrongPrivateKey(std::string_view pem);
std::string WrongKeyPair(std::string_view certificate_pem, std::string_view key_pem);  // of two valid ones

}  // namespace gateway::config
