#include "engine/io/paths.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "engine/error.h"
#include "engine/nearest.h"

namespace bochner {

namespace fs = std::filesystem;

fs::path file_in(const fs::path& folder, const std::string& name) {
  std::error_code ignored;  // a folder that may not be entered is one without the file
  if (fs::exists(folder / name, ignored)) return folder / name;
  if (!fs::exists(folder, ignored)) fail("{}: there is no such folder; check the path", folder.string());
  if (!fs::is_directory(folder, ignored)) fail("{}: is no folder; name the one that holds {}", folder.string(), name);
  std::vector<std::string> below;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (fs::exists(entry.path() / name, ignored)) below.push_back(entry.path().string());
  }
  std::sort(below.begin(), below.end());
  fail("{}: holds no {}{}", folder.string(), name,
       below.empty() ? "" : "; name one of those below it: " + some_of(below));
}

bool is_same(const fs::path& a, const fs::path& b) { return fs::exists(a) && fs::exists(b) && fs::equivalent(a, b); }

void require_unused(const fs::path& path, const std::string& option) {
  std::error_code ignored;  // a folder that may not be read is told where something is written into it
  if (!fs::exists(path, ignored)) return;
  if (!fs::is_directory(path, ignored))
    fail("--{}={}: there is such a file already; name another", option, path.string());
  if (fs::directory_iterator(path, ignored) == fs::directory_iterator()) return;
  fail("--{}={}: that folder holds files already; name another, or an empty one", option, path.string());
}

}  // namespace bochner
