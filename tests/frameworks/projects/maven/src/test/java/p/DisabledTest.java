package p;

import org.junit.jupiter.api.*;

@Disabled("all of it") class DisabledTest { @Test void one() {} }
