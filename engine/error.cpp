#include "engine/error.h"

namespace bochner {
namespace {

thread_local const Scope* innermost = nullptr;

std::string with_path(const std::string& message) {
  const std::string path = Scope::path();
  return path.empty() ? message : fmt::format("{} [{}]", message, path);
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(with_path(message)) {}

Scope::Scope(std::string_view name) : name_(name), outer_(innermost) { innermost = this; }

Scope::~Scope() { innermost = outer_; }

std::string Scope::path() {
  std::string path;
  for (const Scope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (scope->name_.empty()) continue;
    path = path.empty() ? std::string(scope->name_) : fmt::format("{}.{}", scope->name_, path);
  }
  return path;
}

void internal_failure(const char* condition, const char* file, int line) {
  throw InternalError(fmt::format("internal check failed: {} at {}:{}{}; this is a bug in Bochner", condition, file,
                                  line, Scope::path().empty() ? "" : " [" + Scope::path() + "]"));
}

}  // namespace bochner
