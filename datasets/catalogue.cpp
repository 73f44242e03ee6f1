#include "datasets/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "datasets/images/cifar10.h"
#include "datasets/listops/listops.h"
#include "datasets/pairs/aan.h"
#include "datasets/pathfinder/drawing.h"
#include "datasets/pathfinder/pathfinder.h"
#include "datasets/text/imdb.h"
#include "engine/error.h"
#include "engine/io/archive.h"
#include "engine/io/sha256.h"
#include "engine/nearest.h"

namespace bochner {
namespace {

/// Reads to the end, or until there are more bytes than `expected`.
CheckedFile compare(const std::filesystem::path& path, int64_t expected, const std::string& sha256) {
  Sha256 hash;
  int64_t bytes = 0;
  try {
    const std::unique_ptr<ByteSource> source = open_unpacked(path);
    std::vector<std::byte> buffer(1 << 16);
    while (const size_t count = source->read(buffer)) {
      hash.update(std::span(buffer).first(count));
      bytes += static_cast<int64_t>(count);
      if (bytes > expected) {
        return {path, FileState::wrong_size, fmt::format("has more than the {} bytes it should have", expected)};
      }
    }
  } catch (const Error& error) {
    return {path, FileState::wrong_hash, error.what()};
  }
  if (bytes < expected) {
    return {path, FileState::wrong_size, fmt::format("has {} bytes, it should have {}", bytes, expected)};
  }
  if (hash.hex() != sha256) return {path, FileState::wrong_hash, "its SHA-256 is not the one it should have"};
  return {path, FileState::right, ""};
}

}  // namespace

const std::vector<KnownSet>& known_sets() {
  static const std::vector<KnownSet> sets = {
      {"glue/CoLA",
       "gluebenchmark.com/tasks",
       {{"glue/CoLA/train.tsv", 428590, "cb368ebeb9f27d7ad03720d27ddc95687a311bdb100781a2fe59a5f5b1bc0624"},
        {"glue/CoLA/dev.tsv", 53717, "8c013e21dc39957cac37378d87bebe225b694a0d5fe13eded66c2856628833fd"},
        {"glue/CoLA/test.tsv", 48788, "3b4df85f7a9a0633574b38d181e18090ac961a24b18fb6bcd74999ddea8ad0b8"}},
       FileNames::common},
      {"glue/SST-2",
       "gluebenchmark.com/tasks",
       {{"glue/SST-2/train.tsv", 3806081, "48eac26399f8456935f81dd9e3a745c1430adb6c62e233ccfe22db4a0d15d1d1"},
        {"glue/SST-2/dev.tsv", 94931, "54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0"},
        {"glue/SST-2/test.tsv", 197335, "69a938605609b3e6663b4487918fe1565eb293734e6e520d0366d1d412fd2a13"}},
       FileNames::common},
      {"glue/MRPC",
       "gluebenchmark.com/tasks",
       {{"glue/MRPC/train.tsv", 941471, "69abcedee3cf738c6ce58d772e43e1b7cdf5b4edee4aceda459c0d9f4e5599f3"},
        {"glue/MRPC/dev.tsv", 105616, "9e8f284788040f7c9ecde2e1b3c07237c756f926bd9ef8548ef5d34b56f69f17"},
        {"glue/MRPC/test.tsv", 445335, "aee460ceda833926b8ab2ad952d399f5cf8bc9335cff19afcac03dc449558622"}},
       FileNames::common,
       "put train.tsv, dev.tsv and test.tsv there, as GLUE's download script makes them of Microsoft's "
       "msr_paraphrase_{train,test}.txt and its list of dev ids"},
      {"glue/STS-B",
       "gluebenchmark.com/tasks",
       {{"glue/STS-B/train.tsv", 984099, "41c4d978b6162abdcada7e49a982211954cca5459c228db478af333124b257a2"},
        {"glue/STS-B/dev.tsv", 276928, "fe7dc0632a5033562f3cadff991f6e8d9b9b6311861660e78c3c82eb7db67f59"},
        {"glue/STS-B/test.tsv", 292587, "16b4223d7d44a644fbc10f1b449472cfe81e1715fb07cf44023b0aa88ce856eb"}},
       FileNames::common},
      {"glue/RTE",
       "gluebenchmark.com/tasks",
       {{"glue/RTE/train.tsv", 846226, "41e3a9b063433392343fad9e962cf2f58b681c78d8f71592f4186f0837246c5c"},
        {"glue/RTE/dev.tsv", 90343, "80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb"},
        {"glue/RTE/test.tsv", 933969, "6e33f09b5c2bfd5fd5fde217070f3dd49e484e33b9752b5864cf36fc421a213f"}},
       FileNames::common},
      {"glue/WNLI",
       "gluebenchmark.com/tasks",
       {{"glue/WNLI/train.tsv", 99411, "9a88e9d54b6861cc796a088e9acf4f5f65064a9ef65ae6fa7a688b28391e5c9a"},
        {"glue/WNLI/dev.tsv", 11261, "cba00490596dd14be8cf53b4f53bb744abe3a7b89f81ab210528d80225338ed5"},
        {"glue/WNLI/test.tsv", 35761, "ff0296817e235bf6f7a230c5f6781bd6ee228a45445f6510831fdef6f2a04766"}},
       FileNames::common},
      {"glue/QNLI",
       "gluebenchmark.com/tasks",
       {{"glue/QNLI/dev.tsv", 1367342, "ac19409dcb04631eaaa094bdebdcf621086bc352503dfb6a1a648b614986f4fd"},
        {"glue/QNLI/test.tsv", 1300988, "6d856264e292fa7a7bc7b8e182efa1454ffd9532733c12ad813017dd5b377a5a"}},
       FileNames::common},
      {"glue/diagnostic",
       "gluebenchmark.com/diagnostics",
       {{"glue/diagnostic/diagnostic.tsv", 222257,
         "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd"}}},
      {"uci/adult",
       "archive.ics.uci.edu/dataset/2",
       {{"uci/adult.data", 3974305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"},
        {"uci/adult.test", 2003153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"}}},
      {"uci/letter-recognition",
       "archive.ics.uci.edu/dataset/59",
       {{"uci/letter-recognition.data", 712565, "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2"}}},
      {"uci/magic04",
       "archive.ics.uci.edu/dataset/159",
       {{"uci/magic04.data", 1477391, "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a"}}},
      {"uci/Skin_NonSkin",
       "archive.ics.uci.edu/dataset/229",
       {{"uci/Skin_NonSkin.txt", 3400818, "e30c0a845385dcc95a45c45ed263465674a49638e98ef740afd520769c7714a4"}}},
      {"uci/kddcup99",
       "archive.ics.uci.edu/dataset/130",
       {{"uci/kddcup.data_10_percent", 74889749, "f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a"},
        {"uci/corrected", 47251540, "547dfb9c0f0dc1d9944219ec79e851191faebaeb8acbfa1cd171c418397052a4"}}},
      {"mnist",
       "yann.lecun.com/exdb/mnist",
       {{"mnist/train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
        {"mnist/train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
        {"mnist/t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
        {"mnist/t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}}},
      {"fashion-mnist",
       "Debian's package dataset-fashion-mnist: ./run data make fashion-mnist",
       {{"fashion-mnist/train-images-idx3-ubyte", 47040016,
         "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
        {"fashion-mnist/train-labels-idx1-ubyte", 60008,
         "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
        {"fashion-mnist/t10k-images-idx3-ubyte", 7840016,
         "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
        {"fashion-mnist/t10k-labels-idx1-ubyte", 10008,
         "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}}},
      {"wikitext-2 (valid, test)",
       "Merity et al., \"Pointer Sentinel Mixture Models\", 2017",
       {{"wikitext-2/wiki.valid.tokens", 1121681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"},
        {"wikitext-2/wiki.test.tokens", 1256449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"}}},
      {"cifar10 (training)",
       "www.cs.toronto.edu/~kriz/cifar.html",
       {{"cifar10/data_batch_1.bin", 30730000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
        {"cifar10/data_batch_2.bin", 30730000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
        {"cifar10/data_batch_3.bin", 30730000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
        {"cifar10/data_batch_4.bin", 30730000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
        {"cifar10/data_batch_5.bin", 30730000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"}},
       FileNames::own,
       images::cifar10_remedy(),
       images::check_cifar10},
      {"imdb",
       "ai.stanford.edu/~amaas/data/sentiment",
       {{"imdb/train-reviews", 33132823, "1d78f8cfcf79da1021ec70c155b0c383194e2a578805a99bcff59c1dfd708d45"},
        {"imdb/test-reviews", 32350685, "2d03aef9cb3cf222757f2b592eac140456b1aa9a58a9c4d4bd0ab1e25646b552"},
        {"imdb/train-urls", 1225000, "4a3212f754ed5aef5c603067a23d73401fec5452e8e89f605da0e5376822f4a6"},
        {"imdb/test-urls", 1225000, "55dacf8612a993c94ecdc31f05f9efc4f81b3563d403b2ca57d83945e421ec53"}},
       FileNames::own,
       text::imdb_remedy(),
       text::check_imdb},
      {"bert",
       "huggingface.co/bert-base-uncased",
       {{"bert/vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"}},
       FileNames::common},
  };
  return sets;
}

std::vector<NamedSet> named_sets(const std::filesystem::path& data) {
  namespace fs = std::filesystem;
  std::vector<NamedSet> sets;
  const auto add = [&](const char* name, const ArenaFolder& place, bool there, const std::string& remedy) {
    if (!there && place.archive) {
      sets.push_back({name, *place.archive, true, fmt::format("its first use copies it to {}", place.folder.string())});
    } else {
      sets.push_back({name, place.folder, there, there ? "" : remedy});
    }
  };
  if (const fs::path folder = data / "listops"; !has_manifest(folder)) {
    const int files = listops::files_in(folder);
    sets.push_back({"listops", folder, files == 3,
                    files == 3   ? "taken as they are with --listops.found, as they have no manifest"
                    : files == 0 ? fmt::format("made by ./run data make --data {}, or by its first use", data.string())
                                 : fmt::format("there are {} of its 3 files, without a manifest; add the others, or "
                                               "remove them to have all made",
                                               files)});
  }
  const ArenaFolder expressions = listops::find(data);
  const bool unpacked = fs::is_directory(expressions.folder);
  if (expressions.folder != data / "listops" && !has_manifest(expressions.folder)) {
    sets.push_back({"listops (published)", unpacked ? expressions.folder : *expressions.archive, true,
                    "taken with --listops.found" +
                        (unpacked ? "" : fmt::format(", which copies it to {}", expressions.folder.string()))});
  }
  const ArenaFolder tables = pairs::find_aan(data);
  const auto there = [&](const char* part) { return pairs::aan_table(tables.folder, part).has_value(); };
  if (!has_manifest(tables.folder)) {
    add("retrieval", tables, there("train") && there("eval") && there("test"), pairs::aan_remedy());
  }
  add("films (of imdb)", {data / "imdb"}, text::has_imdb(data / "imdb"), text::imdb_remedy());
  add("cifar10 (test)", {data / "cifar10"}, images::has_cifar10_test(data / "cifar10"), images::cifar10_remedy());
  for (const auto& [name, size] : {std::pair("pathfinder", 32), std::pair("pathx", 128)}) {
    const ArenaFolder images = pathfinder::find(data, size, pathfinder::dashes_of(size, "hard"));
    if (has_manifest(images.folder)) continue;
    add(name, images, fs::is_directory(images.folder / "metadata") && fs::is_directory(images.folder / "imgs"),
        pathfinder::remedy(pathfinder::make_command(size, "hard", data.string())));
  }
  // Tables whose hashes are not known here.
  using Tables = std::vector<std::string>;
  for (const auto& [name, files, number] :
       {std::tuple("uci/covertype", Tables{"covtype.data"}, "31"), std::tuple("uci/higgs", Tables{"HIGGS.csv"}, "280"),
        std::tuple("uci/hepmass", Tables{"all_train.csv", "all_test.csv"}, "347")}) {
    const fs::path place = data / "uci";
    const bool is_there = std::ranges::all_of(files, [&](auto& file) { return find_packed(place / file).has_value(); });
    add(name, {place}, is_there,
        fmt::format("put {} there, from archive.ics.uci.edu/dataset/{}", listed(files), number));
  }
  for (const auto& [name, folder, files] :
       {std::tuple("glue/QNLI (train)", "QNLI", Tables{"train"}),
        std::tuple("glue/QQP", "QQP", Tables{"train", "dev", "test"}),
        std::tuple("glue/MNLI", "MNLI",
                   Tables{"train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"})}) {
    const fs::path place = data / "glue" / folder;
    Tables absent;
    for (const std::string& file : files) {
      if (!find_packed(place / (file + ".tsv"))) absent.push_back(file + ".tsv");
    }
    add(name, {place}, absent.empty(), fmt::format("put {} there, from gluebenchmark.com/tasks", listed(absent)));
  }
  return sets;
}

std::vector<PublishedFile> published_as(const std::filesystem::path& file) {
  const std::filesystem::path name = unpacked_name(file.filename().string());
  std::vector<PublishedFile> found;
  for (const KnownSet& set : known_sets()) {
    for (const KnownFile& known : set.files) {
      const std::filesystem::path path = known.path;
      if (path.filename() != name) continue;
      if (path.parent_path().filename() == file.parent_path().filename()) return {{set.name, known.sha256, true}};
      found.push_back({set.name, known.sha256, set.names == FileNames::own});
    }
  }
  return found;
}

CheckedFile check_file(const std::filesystem::path& folder, const KnownFile& file) {
  const std::filesystem::path plain = folder / file.path;
  if (const auto path = find_packed(plain)) return compare(*path, file.bytes, file.sha256);
  const char* what = "is missing";
  if (std::filesystem::is_symlink(plain)) what = "is a link to a file that is missing";
  if (std::filesystem::exists(plain)) what = "is no file";
  return {plain, FileState::missing, what};
}

std::vector<CheckedFile> check_set(const std::filesystem::path& folder, const KnownSet& set) {
  if (set.check != nullptr) return set.check(folder, set.files);
  std::vector<CheckedFile> checked;
  for (const KnownFile& file : set.files) checked.push_back(check_file(folder, file));
  return checked;
}

std::vector<std::filesystem::path> made_sets(const std::filesystem::path& data) {
  namespace fs = std::filesystem;
  std::vector<fs::path> made;
  // Folders that this user may not read, such as lost+found, hold no sets.
  const auto folders_in = [](const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.is_directory(error)) folders.push_back(entry.path());
    }
    return folders;
  };
  const auto look_into = [&](const fs::path& folder) {
    for (const fs::path& one : folders_in(folder)) {
      if (has_manifest(one)) made.push_back(one);
    }
  };
  for (const fs::path& folder : {data, data / "lra_release" / "lra_release"}) {
    if (!fs::is_directory(folder)) continue;
    look_into(folder);
    for (const fs::path& one : folders_in(folder)) {
      if (one.filename().string().starts_with("pathfinder")) look_into(one);
    }
  }
  std::sort(made.begin(), made.end());
  return made;
}

std::vector<CheckedFile> check_manifest(const std::filesystem::path& folder) {
  std::vector<CheckedFile> checked;
  for (const ManifestFile& file : read_manifest(folder).files) {
    const std::filesystem::path path = folder / file.name;
    if (std::filesystem::is_regular_file(path)) {
      checked.push_back(compare(path, file.bytes, file.sha256));
    } else if (std::filesystem::is_directory(path)) {
      const FileState state = state_of(folder, file);
      checked.push_back({path, state, state == FileState::right ? "" : "does not hold the files that it should"});
    } else {
      checked.push_back({path, FileState::missing, "is missing"});
    }
  }
  return checked;
}

}  // namespace bochner
