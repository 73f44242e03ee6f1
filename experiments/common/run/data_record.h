// The data that a run read, in results.json and its checkpoints, so that a record shows which bytes its numbers come
// from, and a run is not resumed with other data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/data_log.h"

namespace bochner {

/// A JSON array with an object for each: {"file" or "generated", "bytes", "sha256", "published": the data set whose
/// published file this is, or null}; also "part": true for a file that was not read to its end.
std::string data_json(const std::vector<DataRead>& reads);
/// The reverse; an Error in the name of `file`.
std::vector<DataRead> parse_data_json(std::string_view json, const std::string& file);
std::vector<DataRead> reads_of(const nlohmann::ordered_json& json, const std::string& file);

/// An Error if a file is, byte for byte, from another published set than the task's, which is also in `tasks`.
void require_of_task(const std::vector<DataRead>& reads, const std::string& task,
                     const std::vector<std::string>& tasks);
/// A line for each file whose name is that of a published one but whose bytes differ, with both hashes.
std::vector<std::string> unpublished(const std::vector<DataRead>& reads);

/// An Error names what differs, and both hashes. Files may have moved: only bytes count, in the order in which they are
/// read.
void require_same_data(const std::vector<DataRead>& now, const std::vector<DataRead>& before);

}  // namespace bochner
