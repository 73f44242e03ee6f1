// The first byte chooses the options, the rest is the table.
#include "engine/io/csv.h"

#include "tests/fuzz/fuzz.h"

using namespace bochner;  // NOLINT: a program of its own

namespace {

using Table = std::vector<std::vector<std::string>>;

Table read(Bytes bytes, const char* name, const CsvOptions& options) {
  CsvReader reader(bytes, name, options);
  Table table;
  while (reader.next()) {
    std::vector<std::string> row;
    for (int i = 0; i < reader.size(); ++i) {
      row.emplace_back(reader[i]);
      fuzz::may_refuse([&] { static_cast<void>(reader.number(i)); });
      fuzz::may_refuse([&] { static_cast<void>(reader.integer(i)); });
    }
    table.push_back(std::move(row));
  }
  return table;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  CsvOptions options;
  options.separator = (data[0] & 1) != 0 ? '\t' : ',';
  options.quotes = (data[0] & 2) != 0;
  options.ragged = (data[0] & 4) != 0;
  options.skip_empty_lines = (data[0] & 8) != 0;
  options.max_row_bytes = (data[0] & 16) != 0 ? 50 : 1 << 20;
  fuzz::may_refuse([&] {
    const Table table = read(fuzz::input(data + 1, size - 1), "fuzz", options);
    std::string text;
    for (const auto& row : table) {
      const std::vector<std::string_view> fields(row.begin(), row.end());
      // Without quotes a field may end in a carriage return, which can be read (before CRLF) but not written.
      for (const std::string_view field : fields) {
        if (!options.quotes && field.find('\r') != std::string_view::npos) return;
      }
      text += format_row(fields, options);
    }
    options.max_row_bytes = 1 << 24;  // quoting makes rows longer
    options.ragged = true;
    // Bytes at the start that would be taken for a byte order mark or for gzip do not belong to a table.
    if (text.starts_with("\xef\xbb\xbf") || text.starts_with("\x1f\x8b")) return;
    fuzz::must(read(bytes_of(text), "fuzz", options) == table, "a table survives a round trip");
  });
  return 0;
}
