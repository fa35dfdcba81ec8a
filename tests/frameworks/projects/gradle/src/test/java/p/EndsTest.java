package p;

import org.junit.Test;

public class EndsTest {
    @Test
    public void before() {}

    @Test
    public void ends() throws Exception {
        String way = String.valueOf(System.getenv("WAY"));
        if (way.equals("exit0")) Runtime.getRuntime().halt(0);
        if (way.equals("exit3")) Runtime.getRuntime().halt(3);
        if (way.equals("hang")) Thread.sleep(100_000);
    }

    @Test
    public void other() {}
}
