#include "engine/comm/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>

#include "engine/error.h"

namespace bochner::nccl {
namespace {

Library load() {
  const char* const named = std::getenv("BOCHNER_NCCL");
  const std::string file = named == nullptr ? "libnccl.so.2" : named;
  void* const from = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (from == nullptr) {
    fail(
        "NCCL: it cannot be loaded: {}; install NVIDIA's libnccl2, or name its file in the variable BOCHNER_NCCL, or "
        "let MPI carry what cards send (--processes=mpi)",
        dlerror());
  }
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(from, name));
    if (function == nullptr) fail("NCCL: {} has no function {}; NCCL 2.7 and later have it", file, name);
  };
  Library all{};
  find("ncclGetVersion", all.get_version);
  find("ncclGetUniqueId", all.get_unique_id);
  find("ncclCommInitRank", all.init_rank);
  find("ncclCommDestroy", all.destroy);
  find("ncclCommAbort", all.abort);
  find("ncclCommGetAsyncError", all.get_async_error);
  find("ncclGetErrorString", all.error_text);
  find("ncclGroupStart", all.group_start);
  find("ncclGroupEnd", all.group_end);
  find("ncclSend", all.send);
  find("ncclRecv", all.receive);
  find("ncclAllReduce", all.all_reduce);
  return all;
}

}  // namespace

int Library::code() const {
  int code = 0;
  check(get_version(&code), "its version");
  return code;
}

std::string Library::version() const {
  const int all = code();
  // 2.8 and before count 1000 for a major version, later ones 10000.
  const int major = all < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", all / major, all % major / 100, all % 100);
}

void Library::check(Result result, const char* what) const {
  if (result != kSuccess) fail("NCCL: {}: {} (NCCL_DEBUG=INFO shows more)", what, error_text(result));
}

const Library& library() {
  static const Library all = load();
  return all;
}

}  // namespace bochner::nccl
