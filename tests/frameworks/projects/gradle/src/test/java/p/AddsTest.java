package p;

import org.junit.Assert;
import org.junit.Ignore;
import org.junit.Test;

public class AddsTest {
    @Test
    public void adds() {}

    @Test
    public void fails() {
        if (System.getenv("FAIL") != null) Assert.assertEquals(4, 5);
    }

    @Ignore
    @Test
    public void later() {}
}
