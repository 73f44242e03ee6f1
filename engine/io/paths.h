// Paths that a user gives, with messages that lead to the right one.
#pragma once

#include <filesystem>
#include <string>

namespace bochner {

/// FOLDER/NAME. An Error if it does not exist, which names folders directly below that have one.
std::filesystem::path file_in(const std::filesystem::path& folder, const std::string& name);

/// Whether both exist and are the same file or folder, under whatever names.
bool is_same(const std::filesystem::path& a, const std::filesystem::path& b);

/// For what a program is to write: an Error if the option names an existing file, or a folder that is not empty.
void require_unused(const std::filesystem::path& path, const std::string& option);

}  // namespace bochner
