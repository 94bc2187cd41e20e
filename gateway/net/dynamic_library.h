// A shared library that is opened where it exists, and its functions, looked up one by one: each may be missing.
#pragma once

#include <dlfcn.h>

#include <memory>

namespace gateway::net {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using DynamicLibrary = std::unique_ptr<void, CloseLibrary>;  // null: there is none

inline DynamicLibrary OpenLibrary(const char* name) {
  return DynamicLibrary(dlopen(name, RTLD_NOW | RTLD_LOCAL));
}

template <class Signature>
class LibraryFunction {
 public:
  LibraryFunction(const DynamicLibrary& library, const char* name)
      : call_(reinterpret_cast<Signature*>(dlsym(library.get(), name))) {}
  // Looks up the first name, then the second.
  LibraryFunction(const DynamicLibrary& library, const char* name, const char* older)
      : LibraryFunction(library, name) {
    if (call_ == nullptr) call_ = LibraryFunction(library, older).call_;
  }
  explicit operator bool() const { return call_ != nullptr; }
  template <class... Args>
  auto operator()(Args... args) const {
    return call_(args...);
  }

 private:
  Signature* call_;
};

}  // namespace gateway::net
