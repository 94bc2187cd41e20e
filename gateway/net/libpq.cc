#include "gateway/net/libpq.h"

#include <fmt/format.h>

namespace gateway::net {
namespace {

constexpr char kLibpqName[] = "libpq.so.5";

}  // namespace

template <class Signature>
Libpq::Function<Signature>::Function(Libpq& owner, const char* name)
    : LibraryFunction<Signature>(owner.library_, name) {
  if (!*this && owner.missing_ == nullptr) owner.missing_ = name;
}

Libpq::Libpq() : library_(OpenLibrary(kLibpqName)) {}

Libpq& Libpq::Only() {
  static Libpq* const only = new Libpq();  // never closed: connections may outlive any other static object
  return *only;
}

absl::Status Libpq::Load() {
  const Libpq& only = Only();
  if (only.library_ == nullptr)
    return absl::NotFoundError(
        fmt::format("{} cannot be opened: install PostgreSQL's client library (Debian: libpq5)", kLibpqName));
  if (only.missing_ != nullptr)
    return absl::NotFoundError(fmt::format("{} has no {}: PostgreSQL's client library 14 or newer is needed",
                                           kLibpqName, only.missing_));
  return absl::OkStatus();
}

const Libpq& Libpq::Get() {
  return Only();
}

}  // namespace gateway::net
