package p;

import org.junit.jupiter.api.Test;

class ImportsTest {
    static { if ("import".equals(System.getenv("WAY"))) throw new IllegalStateException("fails at import"); }

    @Test void needsItsClass() {}
}
