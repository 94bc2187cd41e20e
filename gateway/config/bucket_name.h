// BucketName: checks the name of a bucket of an S3-compatible store, as conf::NotEmpty checks other texts. Stores differ
// in more than this; the store itself says so when it is asked.
#pragma once

#include <algorithm>
#include <string>

namespace gateway::config {

struct BucketName {
  std::string operator()(const std::string& name) const {
    const bool valid = !name.empty() && name.size() <= 255 && std::ranges::all_of(name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
             c == '-' || c == '_';
    });
    return valid ? "" : "must be letters, digits, dots, hyphens and underscores, such as tidegate-files";
  }
};

}  // namespace gateway::config
