#include <gtest/gtest.h>

TEST(Sums, Adds) { EXPECT_EQ(1 + 1, 2); }
#ifndef GONE
TEST(Sums, Other) {}
#endif
