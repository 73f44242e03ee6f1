// The names of the classes in a table.
#include <gtest/gtest.h>

#include "datasets/tables/tabular.h"
#include "tests/files.h"

namespace bochner {
namespace {

// A quoted name may contain a line end; the cache has one line per name.
TEST(Table, ClassesKeepTheirNamesInASecondRead) {
  test::TemporaryFolder folder;
  const auto path = folder.put("a.csv", "1,\"x\nfirst\"\n2,y\n3,z\n");
  const NumericTable first = read_table(path), second = read_table(path);
  EXPECT_EQ(first.class_names, (std::vector<std::string>{"x\nfirst", "y", "z"}));
  EXPECT_EQ(second.class_names, first.class_names);
  EXPECT_EQ(second.labels.to_vector<int64_t>(), first.labels.to_vector<int64_t>());
}

}  // namespace
}  // namespace bochner
