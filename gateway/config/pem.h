// Certificates and keys as they stand in PEM files: whether they can be used, before a listener needs them.
#pragma once

#include <string>
#include <string_view>

namespace gateway::config {

// What is wrong, or an empty string. Never repeats what stands in the files.
std::string WrongCertificate(std::string_view pem);
std::string WrongPrivateKey(std::string_view pem);
std::string WrongKeyPair(std::string_view certificate_pem, std::string_view key_pem);  // of two valid ones

}  // namespace gateway::config
