#include "engine/storage.h"

namespace bochner {

constinit thread_local std::vector<StorageVersion>* SharedStorage::list_ = nullptr;

}  // namespace bochner
