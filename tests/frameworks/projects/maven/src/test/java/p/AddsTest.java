package p;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.stream.Stream;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AddsTest {
    static int base;

    @BeforeAll static void setUp() { base = 40; }
    @Test void adds() { assertEquals(42, base + 2); }
    @ParameterizedTest @CsvSource({"1, 2", "2, 3"}) void plusOne(int a, int sum) { assertEquals(sum, a + 1); }
    @RepeatedTest(2) void repeats() {}
    @TestFactory Stream<DynamicTest> made() {
        return Stream.of("a", "a").map(name -> DynamicTest.dynamicTest(name, () -> {}));
    }
    @Test @Disabled("not yet") void divides() {}
    @Test void needsWindows() { Assumptions.assumeTrue(false, "no Windows"); }
    @Nested class Inner { @Test void deep() {} }
}
