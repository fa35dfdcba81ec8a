package p;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.*;

/** What ends the process, or never ends, where WAY says so. */
@TestMethodOrder(MethodOrderer.MethodName.class)
class EndsTest {
    @Test void before() {}
    @Test void ends() throws Exception {
        switch (String.valueOf(System.getenv("WAY"))) {
            case "kill":
                new ProcessBuilder("kill", "-9", "" + ProcessHandle.current().pid()).start().waitFor();
                Thread.sleep(5000);
                break;
            case "exit0": System.exit(0); break;
            case "exit3": System.exit(3); break;
            case "halt": Runtime.getRuntime().halt(0); break;
            case "hang": for (;;) Thread.sleep(1000);
            case "heap":
                List<long[]> kept = new ArrayList<>();
                for (;;) kept.add(new long[1 << 20]);
            default:
        }
    }
    @Test @Timeout(1) void limited() throws Exception { if ("slow".equals(System.getenv("WAY"))) Thread.sleep(5000); }
    @Test void zLast() {}
}
