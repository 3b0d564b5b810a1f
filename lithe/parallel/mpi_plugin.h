// What the program asks of MPI, in C. The plug-in liblithe-mpi.so (lithe/parallel/mpi/plugin.cpp) answers it and is the
// only thing that needs MPI.
#pragma once

#include <cstddef>

extern "C" {

/// Functions that return a pointer return null, and those that return a number -1, when MPI reports an error; error()
/// says which then. All calls come from one thread.
struct LitheMpi {
  int version;  // kLitheMpiVersion
  int (*init)();
  void (*finalize)();       // waits for the other ranks
  void (*abort)(int code);  // ends all ranks
  const char* (*error)();
  void* (*world)();
  int (*rank)(void* communicator);
  int (*size)(void* communicator);
  void* (*split)(void* communicator, int color);
  void (*release)(void* communicator);
  /// Requests; `bytes` may be above 2 GiB.
  void* (*send)(void* communicator, const void* bytes, size_t count, int to, int tag);
  void* (*receive)(void* communicator, void* bytes, size_t count, int from, int tag);
  int (*test)(void* request);  // 1: done; 0: not yet
  void (*forget)(void* request);
  /// Size of a message of this tag that has come from `*from`, and 0 where there is none.
  int (*waiting)(void* communicator, int tag, int* from);
};

using LitheMpiEntry = const LitheMpi*();
}

inline constexpr int kLitheMpiVersion = 1;
inline constexpr const char* kLitheMpiEntry = "lithe_mpi";
