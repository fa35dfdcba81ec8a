package p;

import org.junit.jupiter.api.*;

class FlakyTest {
    static int runs;

    @Test void passesTheSecondTime() { Assertions.assertTrue(System.getenv("FLAKY") == null || ++runs > 1, "first"); }
}
