package p;

import java.util.Arrays;
import org.junit.jupiter.api.*;

class MemoryTest {
    @Test void holds150MiB() throws Exception {
        Thread.sleep(200);
        byte[] kept = new byte[150 << 20];
        Arrays.fill(kept, (byte) 1);
        Thread.sleep(200);
        Assertions.assertEquals(1, kept[kept.length - 1]);
    }
}
