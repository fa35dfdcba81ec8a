#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

static bool is_set(const char* name, const char* value) {
  const char* found = std::getenv(name);
  return found != nullptr && std::string(found) == value;
}
static bool way(const char* value) { return is_set("WAY", value); }
static void wait_s(double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); }

static void fill_memory() {
  rlimit limit{1u << 30, 1u << 30};
  setrlimit(RLIMIT_AS, &limit);
  std::vector<std::string> held;
  for (;;) held.emplace_back(64u << 20, 'x');
}

TEST(Sums, Adds) { EXPECT_EQ(40 + 2, 42); }
TEST(Sums, Fails) {
  if (is_set("FAIL", "1")) EXPECT_EQ(2 + 2, 5) << "quote \" < & ü";
}
TEST(Sums, Skips) { GTEST_SKIP() << "not here"; }
TEST(Sums, DISABLED_Never) { FAIL(); }
// A suite's name at the start of another one's, and a test's at the start of another's.
TEST(SumsMore, Adds) {}
TEST(Sums, AddsMore) {}
// Prints without a line feed, and what GoogleTest would print of others.
TEST(Prints, NoLineFeed) { std::printf("no line feed"); }
TEST(Prints, OtherTests) {
  std::printf("[       OK ] Sums.Adds (0 ms)\n[  FAILED  ] Sums.AddsMore (0 ms)\n");
  std::printf("[ RUN      ] Sums.Skips\n[----------] 1 test from Sums\nand");
  std::fflush(stdout);
  std::fprintf(stderr, " then");
}

TEST(Ends, Before) {}
TEST(Ends, Ends) {
  if (way("kill")) std::raise(SIGKILL);
  if (way("segv")) std::raise(SIGSEGV);
  if (way("exit0")) std::exit(0);
  if (way("long")) std::printf("%s", std::string(3u << 20, 'x').c_str());
  if (way("exit3")) std::exit(3);
  if (way("hang")) wait_s(60);
  if (way("memory")) fill_memory();
  if (way("memory_thread")) std::thread(fill_memory).join();
  if (way("leave")) std::thread([] { std::quick_exit(0); }).join();
}
TEST(Ends, Behind) {}

TEST(Memory, Holds) {
  std::vector<char> held(150u << 20, 1);
  wait_s(0.6);
  EXPECT_EQ(held[5], 1);
}
TEST(Waits, Half) { wait_s(0.5); }

struct Shared : ::testing::Test {
  static void SetUpTestSuite() {
    if (way("setup")) FAIL() << "no data base";
    if (way("setup_kill")) std::raise(SIGKILL);
    if (way("setup_hang")) wait_s(60);
  }
  static void TearDownTestSuite() {
    if (way("teardown_kill")) std::raise(SIGKILL);
  }
};
TEST_F(Shared, One) {}
TEST_F(Shared, Two) {}

struct Rows : ::testing::TestWithParam<const char*> {};
TEST_P(Rows, Fits) { EXPECT_NE(std::string(GetParam()), is_set("FAIL", "1") ? "c" : ""); }
INSTANTIATE_TEST_SUITE_P(Some, Rows, ::testing::Values("a", "b \"x\"", "c"));

template <class T>
struct Typed : ::testing::Test {};
struct Names {
  template <class T>
  static std::string GetName(int i) {
    return i == 0 ? "std::pair<a, b> *?" : "it-is ü:\"x\"";
  }
};
typedef ::testing::Types<int, std::vector<int>> Ts;
TYPED_TEST_SUITE(Typed, Ts, Names);
TYPED_TEST(Typed, Zero) {}

struct Environment : ::testing::Environment {
  void SetUp() override {
    if (way("environment")) FAIL() << "no server";
    if (way("environment_kill")) std::raise(SIGKILL);
  }
};

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new Environment);
  return RUN_ALL_TESTS();
}
