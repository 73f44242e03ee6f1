#include "experiments/common/run/data_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "datasets/catalogue.h"
#include "engine/error.h"
#include "engine/io/json_file.h"
#include "engine/nearest.h"

namespace bochner {
namespace {

using Json = nlohmann::ordered_json;

/// The data set whose published file has these bytes, or null.
Json set_of(const DataRead& read) {
  if (!read.generated && read.whole) {
    for (const PublishedFile& file : published_as(read.name)) {
      if (file.sha256 == read.sha256) return file.set;
    }
  }
  return nullptr;
}

std::string said(const DataRead& read) { return read.generated ? fmt::format("{} (generated)", read.name) : read.name; }

}  // namespace

std::string data_json(const std::vector<DataRead>& reads) {
  Json all = Json::array();
  for (const DataRead& read : reads) {
    Json one = {{read.generated ? "generated" : "file", read.name}, {"bytes", read.bytes}, {"sha256", read.sha256}};
    if (!read.generated) one["published"] = set_of(read);
    if (!read.whole) one["part"] = true;
    all.push_back(one);
  }
  return json_text(all);
}

std::vector<DataRead> parse_data_json(std::string_view json, const std::string& file) {
  return reads_of(parse_json(json, file + ": the list of data"), file);
}

std::vector<DataRead> reads_of(const Json& json, const std::string& file) {
  std::vector<DataRead> reads;
  try {
    for (const Json& one : json) {
      DataRead read;
      read.generated = one.contains("generated");
      read.name = one.at(read.generated ? "generated" : "file").get<std::string>();
      read.bytes = one.at("bytes").get<int64_t>();
      read.sha256 = one.at("sha256").get<std::string>();
      read.whole = !one.contains("part");
      reads.push_back(read);
    }
  } catch (const Json::exception& error) {
    fail("{}: the list of data is damaged: {}", file, complaint_of(error));
  }
  return reads;
}

std::vector<std::string> unpublished(const std::vector<DataRead>& reads) {
  std::vector<std::string> lines;
  for (const DataRead& read : reads) {
    std::vector<PublishedFile> files = published_as(read.name);
    std::erase_if(files, [](const PublishedFile& file) { return !file.expected; });
    if (read.generated || !read.whole || files.empty() || !set_of(read).is_null()) continue;
    std::vector<std::string> others;
    for (const PublishedFile& file : files) others.push_back(fmt::format("that of {} has {}", file.set, file.sha256));
    lines.push_back(fmt::format("{}: its SHA-256 is {}, but {}; it is damaged, or not the published file", read.name,
                                read.sha256, listed(others)));
  }
  return lines;
}

void require_of_task(const std::vector<DataRead>& reads, const std::string& task,
                     const std::vector<std::string>& tasks) {
  for (const DataRead& read : reads) {
    const Json set = set_of(read);
    if (set.is_null() || set == task || std::find(tasks.begin(), tasks.end(), set.get<std::string>()) == tasks.end())
      continue;
    fail("{}: these are the bytes of {}, not of {}; say --task={}, or name the folder of {} with --data", read.name,
         set.get<std::string>(), task, set.get<std::string>(), task);
  }
}

void require_same_data(const std::vector<DataRead>& now, const std::vector<DataRead>& before) {
  std::vector<std::string> changes;
  for (size_t i = 0; i < std::max(now.size(), before.size()); ++i) {
    if (i >= now.size()) {
      changes.push_back(
          fmt::format("{} with SHA-256 {} was read then, and is not now", said(before[i]), before[i].sha256));
    } else if (i >= before.size()) {
      changes.push_back(fmt::format("{} with SHA-256 {} is read now, and was not then", said(now[i]), now[i].sha256));
    } else if (now[i].sha256 != before[i].sha256) {
      changes.push_back(fmt::format("{} has SHA-256 {}, but {} had {}", said(now[i]), now[i].sha256,
                                    now[i].name == before[i].name ? "it" : said(before[i]), before[i].sha256));
    }
  }
  if (changes.empty()) return;
  fail("--resume: the data are not those that the run began with: {}; restore them, or start another run with --out",
       listed(changes));
}

}  // namespace bochner
