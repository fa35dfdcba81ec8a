package p;

import org.junit.Test;

public class MoreTest {
    @Test
    public void one() {}
}
