// Runs `ballast partition` as a user does, on files, folders and archives of instances.

#include "../support/trials.hpp"
#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;

class BallastPartition : public ballast_test::program_test {
 protected:
  json partition(std::string const& arguments) const
  {
    return json_of("partition --instances " + arguments);
  }

  // Longest processing time gives 11 where 9 is best: 5 + 4, 5 + 4 and 3 + 3 + 3.
  std::string five_four_three(std::string const& name) const
  {
    return file(name, "3\n7\n5\n5\n4\n4\n3\n3\n3\n");
  }
};

TEST_F(BallastPartition, SaysHowGoodEveryPlanIs)
{
  auto const path = five_four_three("a.txt");
  auto const found = partition(path + " --policy lpt");
  EXPECT_EQ(found.at("policy"), "lpt");
  ASSERT_EQ(found.at("instances").size(), 1U);
  json const& only = found.at("instances")[0];
  EXPECT_EQ(only.at("file"), path);
  EXPECT_EQ(only.at("n"), 7);
  EXPECT_EQ(only.at("m"), 3);
  EXPECT_EQ(only.at("makespan"), 11);
  EXPECT_EQ(only.at("lower_bound"), 9);
  EXPECT_EQ(only.at("proven"), false);
  EXPECT_GT(only.at("micros"), 0.0);
  EXPECT_EQ(found.at("files"), 1);
  EXPECT_EQ(found.at("proven"), 0);
  EXPECT_EQ(found.at("proven_share"), 0.0);
  EXPECT_NEAR(found.at("gap_max"), 11.0 / 9 - 1, 1e-12);
  EXPECT_EQ(found.at("micros_mean"), only.at("micros"));
}

TEST_F(BallastPartition, TakesThePolicyThatItIsGiven)
{
  auto const found = partition(five_four_three("a.txt") + " --policy exact:nodes=1000");
  EXPECT_EQ(found.at("instances")[0].at("makespan"), 9);
  EXPECT_EQ(found.at("proven"), 1);
  EXPECT_EQ(found.at("proven_share"), 1.0);
  EXPECT_EQ(found.at("gap_mean"), 0.0);
}

TEST_F(BallastPartition, PrintsATable)
{
  auto const result = run("partition --policy longest_processing_time --instances " +
                          five_four_three("a.txt") + " " + file("b.txt", "2 2 5 5"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out,
              testing::MatchesRegex("file +n +m +makespan +lower_bound +proven +micros\n"
                                    "[^ ]*a.txt +7 +3 +11 +9 +no +[0-9.]+\n"
                                    "[^ ]*b.txt +2 +2 +5 +5 +yes +[0-9.]+\n"
                                    "\npolicy longest_processing_time\n"
                                    "2 instances, 1 proven optimal \\(50.0 %\\).*\n"));
}

TEST_F(BallastPartition, RefinesWithoutAPolicy)
{
  auto const found = partition(five_four_three("a.txt"));
  EXPECT_EQ(found.at("policy"), "refine");
  EXPECT_EQ(found.at("proven_share"), 1.0);
}

TEST_F(BallastPartition, ReadsFoldersAndArchivesInTheOrderOfNames)
{
  std::filesystem::create_directories(path("set/deep"));
  file("set/b.txt", "1 1 7");
  file("set/a.txt", "1 1 8");
  file("set/deep/c.txt", "1 1 9");
  file("set/LICENSE", "MIT");
  auto const makespans = [&](std::string const& what) {
    auto const found = partition(what);
    EXPECT_EQ(found.at("passed_over").size(), 1U);
    std::string all;
    for (json const& each : found.at("instances")) { all += each.at("makespan").dump() + " "; }
    return all;
  };
  EXPECT_EQ(makespans(path("set")), "8 7 9 ");
  for (std::string const archive : {"set.tar", "set.tar.gz"}) {
    std::string const pack = "tar -C '" + path("") + "' -caf '" + path(archive) + "' set";
    ASSERT_EQ(std::system(pack.c_str()), 0);
    EXPECT_EQ(makespans(path(archive)), "8 7 9 ");
  }
  std::filesystem::rename(path("set.tar.gz"), path("set/deep/again.tgz"));
  EXPECT_EQ(partition(path("set")).at("files"), 6);
}

TEST_F(BallastPartition, ReadsMembersWithNamesOutsideAscii)
{
  // A zip archive of "\u00f6.txt" with "1 1 7", as Python writes it.
  constexpr char zip[] =
      "PK\003\004\024\000\000\010\000\000\000\000!\000\241\312-"
      "\277\006\000\000\000\006\000\000\000\006"
      "\000\000\000\303\266.txt1 1 "
      "7\nPK\001\002\024\003\024\000\000\010\000\000\000\000!\000\241\312-"
      "\277\006\000\000\000\006\000\000\000\006\000\000\000\000\000\000\000\000\000\000\000\200\001"
      "\000"
      "\000\000\000\303\266.txtPK\005\006\000\000\000\000\001\000\001\0004\000\000\000*"
      "\000\000\000\000";
  file("names.zip", std::string_view(zip, sizeof(zip)));
  file("\u00f6.txt", "1 1 7\n");
  for (std::string const kind : {"pax", "gnu", "v7"}) {
    std::string const pack = "tar -C '" + path("") + "' --format=" + kind + " -cf '" +
                             path("names." + kind) + "' '\u00f6.txt'";
    ASSERT_EQ(std::system(pack.c_str()), 0);
  }
  for (std::string const locale : {"LC_ALL=C ", "LC_ALL=C.UTF-8 ", "LC_ALL=no_such "}) {
    for (std::string const archive : {"names.zip", "names.pax", "names.gnu", "names.v7"}) {
      auto const result = run("partition --format json --instances " + path(archive), locale);
      ASSERT_EQ(result.exit_code, 0) << archive << result.error;
      EXPECT_EQ(json::parse(result.out).at("instances")[0].at("file"),
                path(archive) + "/\u00f6.txt");
    }
  }
}

TEST_F(BallastPartition, NamesWhatIsNoFile)
{
  std::filesystem::create_directories(path("set/deep"));
  file("set/a.txt", "1 1 8");
  std::filesystem::create_hard_link(path("set/a.txt"), path("set/hard"));
  std::filesystem::create_symlink("nothing", path("set/link"));
  ASSERT_EQ(mkfifo(path("set/pipe").c_str(), 0600), 0);
  for (std::string const kind : {"pax", "gnu"}) {
    std::string const pack = "tar -C '" + path("") + "' --sort=name --format=" + kind + " -cf '" +
                             path("set." + kind) + "' set";
    ASSERT_EQ(std::system(pack.c_str()), 0);
    auto const found = partition(path("set." + kind));
    std::string const inside = path("set." + kind + "/set/");
    EXPECT_EQ(found.at("files"), 1) << kind;
    EXPECT_EQ(found.at("passed_over"), json({inside + "hard", inside + "link", inside + "pipe"}));
  }
  auto const found = partition(path("set"));
  EXPECT_EQ(found.at("files"), 2);
  EXPECT_EQ(found.at("passed_over"), json({path("set/link"), path("set/pipe")}));
}

TEST_F(BallastPartition, ShowsNamesOnOneLine)
{
  std::filesystem::create_directory(path("set"));
  std::string const forged = "a\nb.txt 1 1 1 1 yes 1\x1b[2J\u009b1m\u202e\xff";
  file("set/" + forged, "1 1 8");
  file("set/L\rICENSE", "MIT");
  std::string const pack =
      "tar -C '" + path("") + "' --format=gnu -cf '" + path("set.tar") + "' set";
  ASSERT_EQ(std::system(pack.c_str()), 0);
  std::string const shown = R"(/a\nb.txt 1 1 1 1 yes 1\x1b[2J\u009b1m\u202e\xff )";
  for (std::string const from : {"set", "set.tar"}) {
    auto const result = run("partition --instances " + path(from));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_THAT(result.out, testing::AllOf(HasSubstr(shown), HasSubstr(R"(/L\rICENSE)")));
    EXPECT_EQ(result.out.find_first_of("\r\x1b\xff"), std::string::npos);
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 6);
  }
  file("set/" + forged, "1 1 x");
  expect_refused(run("partition --instances " + path("set")), 1, R"(\x1b[2J)");
}

TEST_F(BallastPartition, UnpacksNoMoreThanAnArchiveMayHold)
{
  for (std::string const first : {"1 1 7", "nothing"}) {  // what is passed over counts too
    std::string const pack = "cd '" + path("") + "' && { printf '" + first +
                             "'; head -c 20000000 /dev/zero | tr '\\0' ' '; } >bomb.txt && "
                             "tar -czf bomb.tgz bomb.txt && rm bomb.txt";
    ASSERT_EQ(std::system(pack.c_str()), 0);
    expect_refused(run("partition --instances " + path("bomb.tgz")), 1,
                   "takes more than the 16777216 that are read of such an archive");
    expect_refused(
        run("partition --most-bytes 20000000 --instances " + path("bomb.tgz")), 1,
        "takes more than the 20000000 that --most-bytes allows; unpack it, or allow more");
  }
  EXPECT_EQ(partition(five_four_three("a.txt") + " " + path("bomb.tgz") + " --most-bytes 20001000")
                .at("files"),
            1);
  // Names of nothing take no room in an archive, and some in memory.
  std::string const pack = "cd '" + path("") +
                           "' && ln -s x y && yes y | head -n 20000 | "
                           "tar --hard-dereference -cf - -T - | gzip >names.tgz";
  ASSERT_EQ(std::system(pack.c_str()), 0);
  expect_refused(run("partition --most-bytes 1000000 --instances " + path("names.tgz")), 1,
                 "takes more than the 1000000 that --most-bytes allows");
  expect_refused(run("partition --most-bytes 0 --instances " + path("bomb.tgz")), 2,
                 "--most-bytes");
}

TEST_F(BallastPartition, KnowsAnArchiveThatBeginsWithANumber)
{
  file("1 1 7", "1 1 8");
  std::string const pack =
      "cd '" + path("") +
      "' && tar --format=gnu -cf set.tar '1 1 7' && tar -cf nested.tar set.tar '1 1 7'";
  ASSERT_EQ(std::system(pack.c_str()), 0);
  EXPECT_EQ(partition(path("set.tar")).at("instances")[0].at("makespan"), 8);
  EXPECT_EQ(partition(path("nested.tar")).at("passed_over"), json({path("nested.tar/set.tar")}));
}

TEST_F(BallastPartition, SaysWhatIsNoArchive)
{
  expect_refused(run("partition --instances " + file("b", std::string("\x7f"
                                                                      "ELF\0\1",
                                                                      6))),
                 1, "this is neither text nor an archive that can be unpacked");
  file("one.txt", "1 1 7");
  // To libarchive this is an archive, with the content of another file.
  expect_refused(run("partition --instances " +
                     file("c", "#mtree\none.txt type=file contents=" + path("one.txt") + "\n")),
                 1, "line 1: '#mtree' stands where");
  ASSERT_EQ(std::system(("gzip '" + path("one.txt") + "'").c_str()), 0);
  expect_refused(run("partition --instances " + path("one.txt.gz")), 1,
                 "Unrecognized archive format; the archive is damaged or of no known kind");
}

TEST_F(BallastPartition, AnswersOneWhenTheDataAreWrong)
{
  expect_refused(run("partition --instances /no/such/file"), 1, "/no/such/file");
  expect_refused(run("partition --instances " + file("a.txt", "2\n2\n5\nfive\n")), 1,
                 "a.txt: line 4: 'five'");
  expect_refused(run("partition --instances " + file("b.txt", "two machines")), 1,
                 "b.txt: line 1: 'two'");
  expect_refused(run("partition --instances " + file("c.txt", "2 3 1 1")), 1, "time 3 of 3");
  std::filesystem::create_directories(path("empty"));
  expect_refused(run("partition --instances " + path("empty")), 1, "no file in it is an instance");
  file("cut.txt", std::string(100'000, '1'));
  std::string const cut =
      "tar -C '" + path("") + "' -cf - cut.txt | head -c 2000 > '" + path("cut.tar") + "'";
  ASSERT_EQ(std::system(cut.c_str()), 0);
  expect_refused(run("partition --instances " + path("cut.tar")), 1, "cut.tar: ");
}

TEST_F(BallastPartition, AnswersTwoWhenTheCommandLineIsWrong)
{
  expect_refused(run("partition"), 2, "--instances");
  expect_refused(run("partition --instances a --policy magic"), 2, "no policy 'magic'");
  expect_refused(run("partition --instances a --gpus 8"), 2, "see ballast partition --help");
}

TEST_F(BallastPartition, ProvesMostOfThePublishedInstances)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA does not name a folder of instances"; }
  std::string const policy =
      ballast_test::is_sanitized ? "\"exact(refine(lpt),nodes=30000)\"" : "exact:refine:lpt";
  auto const found = partition(std::string(data) + "/pcmax --policy " + policy);
  EXPECT_EQ(found.at("files"), 390);
  EXPECT_GE(found.at("proven_share"), 0.85);
  EXPECT_LT(found.at("gap_max"), 0.01);
}

}  // namespace
