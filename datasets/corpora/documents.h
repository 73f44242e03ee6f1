// Reads texts of any kind (plain files, folders and archives), line by line and document by document, for a model that
// is trained on all of them.
//
//   read_documents(text_files({"data/imdb", "notes.txt.gz"}), [&](std::string_view line) {...}, [&] {...});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bochner::text {

/// A path to a file stands for itself. A folder stands for all texts and archives below it, in the order of their
/// paths, but not for hidden files, IMDb's lists (urls_*.txt, imdbEr.txt), or packed files that are also there
/// unpacked. Texts end in .txt, .tokens or .raw, archives in .tar or .zip, and both may be packed with gzip or
/// Zstandard. An Error if a path is missing, or a folder holds no text.
std::vector<std::filesystem::path> text_files(const std::vector<std::string>& paths);

/// Calls `line` for each line, without its line end, and `end` after the last line of each document. A document is
///
/// - a text in an archive (IMDb's lists and hidden files are left out),
/// - an article of WikiText, which begins with a line ` = Title = `,
/// - in any other file, a part of at least 16 KiB that ends at an empty line, or of 64 KiB that ends at any line.
///
/// `<br />`, as in the reviews of IMDb, is read as a blank, and in files called wiki.*.tokens the marks ` @-@ `, ` @,@
/// ` and ` @.@ ` as the hyphen, comma or full stop within a word that they stand for. Bytes that are not UTF-8 stay as
/// they are.
void read_documents(const std::vector<std::filesystem::path>& files, const std::function<void(std::string_view)>& line,
                    const std::function<void()>& end);

}  // namespace bochner::text
