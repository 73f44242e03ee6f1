#include "engine/io/file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "engine/io/file_lock.h"
#include "tests/engine/io/io_test.h"

namespace bochner {
namespace {

using test::message_of;
using test::TemporaryFolder;
using test::text;

/// While it lives, flock() fails with this error, or only its next `calls` do.
struct Unlockable {
  explicit Unlockable(int with, int64_t times = INT64_MAX) {
    error = with;
    calls = times;
  }
  ~Unlockable() { calls = 0; }
  static inline int error = 0;
  static inline int64_t calls = 0;
};

}  // namespace
}  // namespace bochner

/// Replaces the C library's, in this test program.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (bochner::Unlockable::calls == 0) return static_cast<int>(syscall(SYS_flock, descriptor, operation));
  --bochner::Unlockable::calls;
  errno = bochner::Unlockable::error;
  return -1;
}

namespace bochner {
namespace {

/// The result of f in a separate process, where it may drop privileges and set limits.
std::string in_a_child(const std::function<std::string()>& f) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string answer;
    try {
      answer = f();
    } catch (const std::exception& error) {
      answer = error.what();
    }
    const ssize_t written = write(ends[1], answer.data(), answer.size());
    _exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string answer;
  char piece[256];
  for (ssize_t count = 0; (count = read(ends[0], piece, sizeof(piece))) > 0;) answer.append(piece, count);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return answer;
}

TEST(ByteReader, ReadsIntegersInBothOrdersAndStopsAtTheEnd) {
  const std::string bytes = "\x01\x02\x03\x04\x05";
  ByteReader reader(bytes_of(bytes), "f");
  EXPECT_EQ(reader.little<uint16_t>("a"), 0x0201);
  EXPECT_EQ(reader.big<uint16_t>("b"), 0x0304);
  EXPECT_EQ(reader.remaining(), 1);
  EXPECT_EQ(message_of([&] { reader.little<uint64_t>("the length"); }),
            "f: offset 4: the length takes 8 bytes, only 1 are left; the file is cut short or damaged: fetch or write "
            "it again");
  EXPECT_EQ(reader.take(1, "rest").size(), 1U);
  EXPECT_THROW(reader.take(-1, "rest"), Error);
  EXPECT_THROW(reader.take(INT64_MAX, "rest"), Error);
  EXPECT_EQ(text(little_bytes<uint32_t>(0x01020304)), "\x04\x03\x02\x01");
  EXPECT_EQ(text(big_bytes<uint32_t>(0x01020304)), "\x01\x02\x03\x04");
}

TEST(ByteReader, ShowsForeignTextOnOneLine) {
  EXPECT_EQ(shown("a\n\x1b[31m\xff"), "'a\\x0a\\x1b[31m\\xff'");
  EXPECT_LE(shown(std::string(10000, 'x')).size(), 90U);
}

TEST(File, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "some text");
  EXPECT_EQ(text(read_file(folder / "a")), "some text");
  write_file_atomically(folder / "a", "");
  EXPECT_EQ(text(read_file(folder / "a")), "");
  EXPECT_EQ(folder.names(), std::set<std::string>{"a"});
}

TEST(File, ErrorsSayWhyAFileCanNotBeRead) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "0123456789");
  EXPECT_EQ(message_of([&] { read_file(folder / "b"); }),
            (folder / "b").string() + ": cannot be opened: No such file or directory; check the path");
  EXPECT_EQ(message_of([&] { read_file(folder.path()); }),
            folder.path().string() + ": is a folder, not a file; name a file in it");
  EXPECT_NE(message_of([&] { read_file(folder / "a", 9); }).find("holds 10 bytes, more than the 9"), std::string::npos);
  EXPECT_EQ(read_file(folder / "a", 10).size(), 10U);
  EXPECT_NE(message_of([&] { read_file("/dev/zero", 1000); }).find("more than the 1000 bytes"), std::string::npos);
  std::vector<std::byte> place(4);
  EXPECT_NE(
      message_of([&] { InputFile(folder / "a").read_at(8, place); }).find("offset 10: the file ends here, 2 bytes"),
      std::string::npos);
}

TEST(File, WhatFilesystemThrowsNamesThePathTheReasonAndTheRemedy) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const auto told = [](const std::function<void()>& body) { return message_of([&] { with_named_files(body); }); };
  const std::string file = (folder / "file").string();
  std::ofstream(file) << "text";
  EXPECT_EQ(
      told([&] { fs::create_directories(file + "/a"); }),
      file + "/a: cannot be used: Not a directory; what stands for a folder in the path is a file: check the path");
  const std::string longest(300, 'x');
  EXPECT_EQ(told([&] { (void)fs::exists(longest); }),
            longest + ": cannot be used: File name too long; choose a shorter name");
  EXPECT_EQ(told([&] { fs::rename(folder / "none", folder / "other"); }),
            (folder / "none").string() + " and " + (folder / "other").string() +
                ": cannot be used: No such file or directory; check the path");
  const auto full = std::make_error_code(std::errc::no_space_on_device);
  EXPECT_THROW(with_named_files([&] { throw fs::filesystem_error("cannot copy", folder.path(), full); }), DiskError);
  EXPECT_EQ(told([] { fail("another error"); }), "another error");
}

TEST(AtomicFile, WithoutCommitTheOldFileStaysAndNothingElse) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(folder.names().size(), 2U);
    EXPECT_EQ(text(read_file(folder / "a")), "old");
  }
  EXPECT_EQ(folder.names(), std::set<std::string>{"a"});
  EXPECT_EQ(text(read_file(folder / "a")), "old");
}

TEST(AtomicFile, TwoWritersOfOneFileDoNotMix) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a");
  AtomicFile second(folder / "a");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(text(read_file(folder / "a")), "first");
  EXPECT_EQ(folder.names(), std::set<std::string>{"a"});
}

TEST(AtomicFile, KeepsPermissionsAndLinks) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  ASSERT_EQ(chmod((folder / "a").c_str(), 0640), 0);
  std::filesystem::create_symlink("a", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(text(read_file(folder / "a")), "new");
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), std::filesystem::perms{0640});
}

TEST(AtomicFile, ReplacesALinkThatNoPersonNamed) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  std::filesystem::create_symlink("a", folder / "link");
  AtomicFile file(folder / "link", Links::replaced);
  file.write("new");
  file.commit();
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(text(read_file(folder / "link")), "new");
  EXPECT_EQ(text(read_file(folder / "a")), "old");
}

TEST(AtomicFile, RefusesWhatItCanNotReplace) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { write_file_atomically(folder / "no/a", "x"); }),
            (folder / "no/a").string() + ": cannot be written: No such file or directory; check the path");
  EXPECT_NE(message_of([&] { write_file_atomically(folder.path(), "x"); }).find("is not a regular file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { write_file_atomically("/dev/null", "x"); }).find("is not a regular file"),
            std::string::npos);
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFile, AReadOnlyFolderIsNamed) {
  const TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  const std::string message = in_a_child([&] {
    if (getuid() == 0 && setuid(65534) != 0) return std::string("skip");
    return message_of([&] { write_file_atomically(folder / "a", "x"); });
  });
  chmod(folder.path().c_str(), 0755);
  if (message == "skip") GTEST_SKIP() << "root, and privileges cannot be dropped";
  EXPECT_EQ(message, (folder / "a").string() +
                         ": cannot be written: Permission denied; check the permissions of the file and its folder");
}

TEST(AtomicFile, AFullDiskIsNamedAndTheOldFileStays) {
  const TemporaryFolder folder;
  const std::string message = in_a_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
      return std::string("skip");
    }
    write_file_atomically(folder / "a", "old");
    const std::string answer = message_of([&] { write_file_atomically(folder / "a", std::string(1 << 20, 'x')); });
    const bool kept = text(read_file(folder / "a")) == "old" && folder.names() == std::set<std::string>{"a"};
    return answer + (kept ? "" : " BUT THE OLD FILE IS GONE OR THE NEW ONE STAYED");
  });
  if (message == "skip") GTEST_SKIP() << "no right to mount a small disk";
  EXPECT_EQ(message, (folder / "a").string() +
                         ": writing stopped after 61440 bytes: No space left on device; free some space or choose "
                         "another disk. What stood there before is unchanged");
}

TEST(AtomicFile, AFileAboveTheLimitIsNamedAndTheOldFileStays) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  const std::string message = in_a_child([&] {
    const rlimit limit{1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomically(folder / "a", std::string(5000, 'x'));
    } catch (const DiskError& error) {
      return std::string(error.what());
    }
    return std::string("no DiskError");
  });
  EXPECT_NE(message.find("writing stopped after 1000 bytes: File too large"), std::string::npos) << message;
  EXPECT_EQ(text(read_file(folder / "a")), "old");
  EXPECT_EQ(folder.names(), std::set<std::string>{"a"});
}

TEST(AtomicFile, RemovesWhatKilledWritersLeftOfTheSameFile) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile dead(folder / "a");
    AtomicFile other(folder / "b");
    dead.write("half");
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const std::string process = std::to_string(child);
  ASSERT_EQ(folder.names().size(), 2U);
  AtomicFile living(folder / "a");  // a second writer of the same file must not remove it as a leftover
  living.write("living");
  for (const char* name : {"a.tmp-", "a.tmp-1-", "a.tmp-x-1", "c.tmp-1-1.bak"}) {
    std::ofstream(folder / name) << "somebody's own";
  }
  write_file_atomically(folder / "a", "new");
  living.commit();
  EXPECT_EQ(text(read_file(folder / "a")), "living");
  std::set<std::string> names = folder.names();
  EXPECT_EQ(std::erase_if(names, [&](const std::string& name) { return name.starts_with("b.tmp-" + process); }), 1U);
  EXPECT_EQ(names, (std::set<std::string>{"a", "a.tmp-", "a.tmp-1-", "a.tmp-x-1", "c.tmp-1-1.bak"}));
  const AtomicFile alive(folder / "d");
  remove_leftovers(folder.path());
  names = folder.names();
  EXPECT_EQ(std::erase_if(names, [](const std::string& name) { return name.starts_with("d.tmp-"); }), 1U);
  EXPECT_EQ(names, (std::set<std::string>{"a", "a.tmp-", "a.tmp-1-", "a.tmp-x-1", "c.tmp-1-1.bak"}));
}

TEST(AtomicFile, TakesAnotherNameWhereTheFirstIsBeingRemoved) {
  const TemporaryFolder folder;
  std::filesystem::path path;
  const Unlockable once(EWOULDBLOCK, 1);  // a process that removes leftovers has locked the new file before us
  const int descriptor = open_temporary(folder / "a", path);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(folder.names().size(), 2U);
  close(descriptor);
}

TEST(Temporary, OfFoldersThoseThatWereMissingGoAgainWhereNothingElseIsInThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "old");
  {
    Temporaries made;
    EXPECT_FALSE(made.add_folders(folder / "old/a/b"));
    made.add(folder / "old/a/b/file");
    folder.put("old/a/b/file", "");
    EXPECT_FALSE(made.add_folders(folder / "old/a/c"));
    folder.put("old/a/c/another's", "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "old/a/b"));
  EXPECT_TRUE(std::filesystem::exists(folder / "old/a/c/another's"));
  {
    Temporaries made;
    EXPECT_FALSE(made.add_folders(folder / "old/a/d/e/"));
    made.keep();
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "old/a/d/e"));
  {
    Temporaries made;
    EXPECT_FALSE(made.add_folders(folder / "old"));
    EXPECT_TRUE(made.add_folders(folder / "old/a/c/another's/f"));
    EXPECT_TRUE(made.add_folders(folder / "old/a/c/another's"));
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "old/a/c/another's"));
}

TEST(Temporary, SeveralMakeAndRemoveTheSameFoldersAtOnce) {
  const TemporaryFolder folder;
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 300; ++k) {
        Temporaries made;
        if (made.add_folders(folder / "a/b/c")) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST(Temporary, IsRemovedByASignalHandlerToo) {
  const TemporaryFolder folder;
  const std::string left = in_a_child([&] {
    const Temporary staging(folder / "staging");
    const Temporary file(folder / "staging/file");
    std::filesystem::create_directory(folder / "staging");
    AtomicFile half(folder / "staging/file");
    half.write("half");
    write_file_atomically(folder / "staging/file", "whole");
    remove_temporaries();
    std::string names;
    for (const std::string& name : folder.names()) names += name + " ";
    return names + ".";
  });
  EXPECT_EQ(left, ".");
}

TEST(FileLock, IsHeldByOneAndNames) {
  const TemporaryFolder folder;
  {
    const FileLock first(folder / "lock", "no lock", "choose another");
    ASSERT_TRUE(first.held());
    const FileLock second(folder / "lock", "no lock", "choose another");
    EXPECT_FALSE(second.held());
    EXPECT_EQ(second.holder(), "process " + std::to_string(getpid()));
  }
  EXPECT_TRUE(FileLock(folder / "lock", "no lock", "choose another").held());
  EXPECT_EQ(message_of([&] { FileLock(folder / "no/lock", "no lock", "choose another"); }),
            "no lock: No such file or directory; choose another");
}

TEST(FileLock, LeavesAloneWhatALinkLeadsTo) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "victim", "precious");
  std::filesystem::create_symlink("victim", folder / "link");
  std::filesystem::create_hard_link(folder / "victim", folder / "twin");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto message = [&](const char* name) {
    return message_of([&] { FileLock(folder / name, "no lock", "choose another"); });
  };
  EXPECT_EQ(message("link"), (folder / "link").string() + ": is a symbolic link, which is not followed here; put a " +
                                 "file in its place, or remove it");
  EXPECT_NE(message("twin").find("twin: is a file with other names too (hard links)"), std::string::npos);
  EXPECT_NE(message("pipe").find("pipe: is no regular file"), std::string::npos);
  EXPECT_EQ(text(read_file(folder / "victim")), "precious");
}

TEST(FileLock, IsHeldWithAWarningWhereTheFileSystemHasNoLocks) {
  const TemporaryFolder folder;
  for (const int error : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    const Unlockable disk(error);
    const FileLock lock(folder / "lock", "no lock", "choose another");
    EXPECT_TRUE(lock.held());
    EXPECT_NE(lock.warning().find("lock: cannot be locked ("), std::string::npos) << lock.warning();
  }
  EXPECT_EQ(FileLock(folder / "lock", "no lock", "choose another").warning(), "");
  const Unlockable disk(EIO);
  EXPECT_EQ(message_of([&] { FileLock(folder / "lock", "no lock", "choose another"); }),
            "no lock: " + (folder / "lock").string() + " cannot be locked: Input/output error; choose another");
}

}  // namespace
}  // namespace bochner
