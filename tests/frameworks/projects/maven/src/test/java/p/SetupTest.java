package p;

import org.junit.jupiter.api.*;

class SetupTest {
    @BeforeAll static void setUp() { if ("setup".equals(System.getenv("WAY"))) throw new IllegalStateException("fails in set-up"); }
    @Test void one() {}
    @Test void two() {}
}
