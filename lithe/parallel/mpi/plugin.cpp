// The plug-in liblithe-mpi.so: MPI behind the C functions of mpi_plugin.h.
#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lithe/parallel/mpi_plugin.h"

namespace {

constexpr size_t kMost = size_t(1) << 30;  // of one MPI message, whose count is an int

std::string last_error;

bool worked(int code) {
  if (code == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  last_error.assign(text, size_t(length));
  return false;
}

struct Request {
  std::vector<MPI_Request> parts;
};

MPI_Comm comm_of(void* communicator) { return *static_cast<MPI_Comm*>(communicator); }

// One message in parts of at most kMost bytes, in order.
template <class Begin>
void* in_parts(size_t count, Begin&& begin) {
  auto* request = new Request;
  size_t at = 0;
  do {
    const size_t part = std::min(kMost, count - at);
    MPI_Request made = MPI_REQUEST_NULL;
    if (!worked(begin(at, int(part), &made))) return nullptr;
    request->parts.push_back(made);
    at += part;
  } while (at < count);
  return request;
}

int init() {
  int given = 0;
  if (!worked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given))) return -1;
  return worked(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)) ? 0 : -1;
}

void finalize() { MPI_Finalize(); }
void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
const char* error() { return last_error.c_str(); }
void* world() { return new MPI_Comm(MPI_COMM_WORLD); }

int rank(void* communicator) {
  int out = -1;
  return worked(MPI_Comm_rank(comm_of(communicator), &out)) ? out : -1;
}

int size(void* communicator) {
  int out = -1;
  return worked(MPI_Comm_size(comm_of(communicator), &out)) ? out : -1;
}

void* split(void* communicator, int color) {
  MPI_Comm out = MPI_COMM_NULL;
  if (!worked(MPI_Comm_split(comm_of(communicator), color, rank(communicator), &out))) return nullptr;
  MPI_Comm_set_errhandler(out, MPI_ERRORS_RETURN);
  return new MPI_Comm(out);
}

void release(void* communicator) {
  auto* comm = static_cast<MPI_Comm*>(communicator);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && *comm != MPI_COMM_WORLD) MPI_Comm_free(comm);
  delete comm;
}

void* send(void* communicator, const void* bytes, size_t count, int to, int tag) {
  return in_parts(count, [&](size_t at, int part, MPI_Request* request) {
    return MPI_Isend(static_cast<const char*>(bytes) + at, part, MPI_BYTE, to, tag, comm_of(communicator), request);
  });
}

void* receive(void* communicator, void* bytes, size_t count, int from, int tag) {
  return in_parts(count, [&](size_t at, int part, MPI_Request* request) {
    return MPI_Irecv(static_cast<char*>(bytes) + at, part, MPI_BYTE, from, tag, comm_of(communicator), request);
  });
}

int test(void* request) {
  auto& parts = static_cast<Request*>(request)->parts;
  int done = 0;
  return worked(MPI_Testall(int(parts.size()), parts.data(), &done, MPI_STATUSES_IGNORE)) ? done : -1;
}

void forget(void* request) { delete static_cast<Request*>(request); }

int waiting(void* communicator, int tag, int* from) {
  int there = 0, count = 0;
  MPI_Status status;
  if (!worked(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_of(communicator), &there, &status))) return -1;
  if (!there) return 0;
  *from = status.MPI_SOURCE;
  return worked(MPI_Get_count(&status, MPI_BYTE, &count)) ? count : -1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const LitheMpi* lithe_mpi() {
  static const LitheMpi functions{kLitheMpiVersion, init, finalize, abort_all, error,  world,  rank, size, split,
                                  release,          send, receive,  test,      forget, waiting};
  return &functions;
}
