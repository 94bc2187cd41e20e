#include "bench/micro/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocations = 0;

void* Allocate(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}

void* AllocateAligned(size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto align = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}

}  // namespace

uint64_t bench::AllocationsSoFar() {
  return allocations;
}

void* operator new(size_t size) {
  return Allocate(size);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateAligned(size, alignment);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
