package p;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import org.junit.jupiter.api.Test;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;

/** As a project that extends JUnit tests itself. */
class LauncherTest {
    static class Inside { @Test void fails() { throw new AssertionError("of no test of the suite"); } }

    @Test void startsAnother() {
        SummaryGeneratingListener listener = new SummaryGeneratingListener();
        LauncherFactory.create().execute(
            LauncherDiscoveryRequestBuilder.request().selectors(selectClass(Inside.class)).build(), listener);
        assertEquals(1, listener.getSummary().getTestsFailedCount());
    }
}
