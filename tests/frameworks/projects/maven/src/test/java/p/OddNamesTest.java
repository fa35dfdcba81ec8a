package p;

import org.junit.jupiter.api.*;

@DisplayName("odd [x] (y)")
class OddNamesTest {
    @Test @DisplayName("says \"it's\" so") void quotes() {}
    @Test @DisplayName("a line\nfeed") void feed() {}
    @Test @DisplayName("grüße 😀 日本") void letters() {}
    @Test @DisplayName("twice") void first() {}
    @Test @DisplayName("twice") void second() {}
    @Test void größe() { if (System.getenv("FAIL") != null) Assertions.fail("the odd one: \"ä\\\""); }
}
