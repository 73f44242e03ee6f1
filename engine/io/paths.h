// Paths that a person names, with messages that lead to the right one.
#pragma once

#include <filesystem>
#include <string>

namespace bochner {

/// FOLDER/NAME. An Error where it is not there, which names folders right below that have one.
std::filesystem::path file_in(const std::filesystem::path& folder, const std::string& name);

/// Whether both are there and are one file or folder, by whatever names.
bool is_same(const std::filesystem::path& a, const std::filesystem::path& b);

/// For what a program is to write: an Error where the option names a file that is there, or a folder that is not empty.
void require_unused(const std::filesystem::path& path, const std::string& option);

}  // namespace bochner
