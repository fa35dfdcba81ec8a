package ciguard;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

/**
 * JUnit Platform 1.7+, Java 8+: leaves the classes that a leg asks for, and records them as they run.
 *
 * <p>Orders come as system properties, which no program that a test starts inherits. Without them
 * the class does nothing. ciguard_junit.jar holds it; `make listener` builds that.
 */
public final class CiguardListener implements TestExecutionListener, PostDiscoveryFilter {
    private static final int MESSAGE_BYTES = 4096;
    private static final int NAME_CHARACTERS = 2000;
    private static final String DRY_RUN = "junit.platform.execution.dryRun.enabled"; // JUnit 5.10
    // Properties of Maven, and what Surefire calls each of them.
    private static final String[][] SETTINGS = {
        {"groups", "groups"}, {"excludedGroups", "excludegroups"}, {"test", "requestedTest"}, {DRY_RUN, ""},
    };
    // The arguments of Surefire's process: a folder, and in it the second of three files has its settings.
    private static final Pattern BOOTER =
        Pattern.compile(".*?(?:surefirebooter\\S*\\.jar|ForkedBooter) (.+) \\S+ (\\S+) \\S+");
    private static final String LIST = System.getProperty("ciguard.list", "");
    private static final String STOP = System.getProperty("ciguard.stop", "");
    private static final OutputStream RECORD = open(LIST, System.getProperty("ciguard.record", ""));
    private static final Set<String> UNITS = units(System.getProperty("ciguard.units", ""));
    // The leg's clock is none of ours: the time of day now, and from here on our own.
    private static final long BEGAN_NS = System.nanoTime();
    private static final double BEGAN_S = System.currentTimeMillis() / 1e3 - origin();
    // A launcher that a test starts finds this class, too: only the outer one's plan is the leg's.
    private static TestPlan outer;
    private static boolean hasReported;
    // For a listing. Not a HashSet: each discovery has engines that equal those of the last one.
    private static final Set<TestDescriptor> ENGINES = Collections.newSetFromMap(new IdentityHashMap<>());

    private final Map<String, Long> begun = new HashMap<>(); // by unique id
    private final Map<String, Integer> tries = new HashMap<>(); // by unique id, of classes
    private final Map<String, List<String>> names = new HashMap<>(); // unique ids that share a name
    private final Set<String> reported = new HashSet<>(); // units with a result
    private TestPlan plan;

    @Override
    public FilterResult apply(TestDescriptor test) {
        String unit = "";
        TestDescriptor root = test;
        for (Optional<TestDescriptor> at = Optional.of(test); at.isPresent(); at = root.getParent()) {
            root = at.get();
            unit = className(root.getSource(), unit);
        }
        if (!LIST.isEmpty()) ENGINES.add(root);
        boolean other = !UNITS.isEmpty() && !unit.isEmpty() && !UNITS.contains(unit);
        return FilterResult.includedIf(!other || outer != null);
    }

    @Override
    public synchronized void testPlanExecutionStarted(TestPlan started) {
        if (RECORD == null || outer != null) return;
        outer = plan = started;
        report();
        if (!LIST.isEmpty()) list();
    }

    /** Write once whether bodies run, and all: Surefire runs failed tests again in another plan. */
    private static void report() {
        if (hasReported) return;
        hasReported = true;
        boolean executes = true;
        Properties surefire = surefire();
        for (String[] names : SETTINGS) {
            String name = names[0];
            String value = System.getProperty(name, mavenOption(name));
            String used = surefire.getProperty(names[1], "");
            boolean isStated = !used.isEmpty() && !used.equals(value);
            // Of `test`, Surefire has other words, and those of its file of classes: none has a method.
            if (name.equals("test")) isStated = value.isEmpty() && used.contains("#");
            String place = isStated ? "pom.xml: " : "-D";
            if (isStated) value = used.trim().replaceAll("\\s+", " ");
            if (value.isEmpty() || value.equals("false")) continue;
            executes = false;
            setting(name.equals(DRY_RUN) ? "not_executed" : "filter", place + name + "=" + value);
        }
        if (executes) setting("executed", "");
    }

    /** What Surefire goes by: a value in pom.xml, which no property tells and which wins over one. */
    private static Properties surefire() {
        Properties found = new Properties();
        Matcher words = BOOTER.matcher(System.getProperty("sun.java.command", ""));
        if (!words.matches()) return found;
        try (InputStream file = Files.newInputStream(Paths.get(words.group(1), words.group(2)))) {
            found.load(file);
        } catch (IOException | IllegalArgumentException error) { /* the properties are known */ }
        return found;
    }

    /** What MAVEN_OPTS sets: a property of Maven's own process, which Surefire's has not. */
    private static String mavenOption(String name) {
        for (String word : String.valueOf(System.getenv("MAVEN_OPTS")).split("\\s+")) {
            if (word.startsWith("-D" + name + "=")) return word.substring(name.length() + 3);
        }
        return "";
    }

    private static void setting(String reason, String detail) {
        String both = ", " + field("reason", reason) + ", " + field("detail", detail);
        if (LIST.isEmpty()) event("execution", both);
        else if (reason.equals("filter")) write("{" + field("filter", detail) + "}\n");
    }

    /** Write what the plan holds and take it out, so that nothing runs and Maven ends well. */
    private void list() {
        Set<String> units = new TreeSet<>();
        for (TestIdentifier engine : plan.getRoots()) {
            for (TestIdentifier test : plan.getDescendants(engine)) {
                if (top(test) != null) units.add(className(top(test).getSource(), ""));
            }
        }
        for (String unit : units) {
            write("{" + field("unit", unit) + ", " + field("file", fileOf(unit)) + "}\n");
        }
        // Not by the filter: it does not know what tags and other filters leave out.
        for (TestDescriptor engine : ENGINES) {
            new ArrayList<TestDescriptor>(engine.getChildren()).forEach(TestDescriptor::removeFromHierarchy);
        }
        if (!ENGINES.isEmpty()) return;
        write("{" + field("error", "JUnit") + ", " + field("message", "JUnit 5.7 or newer is needed") + "}\n");
        Runtime.getRuntime().halt(1); // before the first test: no filter was asked
    }

    @Override
    public synchronized void testPlanExecutionFinished(TestPlan finished) {
        if (plan == finished) outer = plan = null;
    }

    @Override
    public synchronized void executionStarted(TestIdentifier test) {
        TestIdentifier top = top(test);
        if (top == null) return;
        begun.put(test.getUniqueId(), System.nanoTime());
        if (!test.equals(top)) {
            String unit = field("unit", className(top.getSource(), "")) + ", ";
            if (test.isTest()) event("case_start", ", " + unit + field("detail", name(test, top)));
            return;
        }
        // Here, and not where the last class ended: by now all other listeners have heard of that.
        if (!STOP.isEmpty() && new File(STOP).exists()) System.exit(0);
        start(test);
    }

    @Override
    public synchronized void executionSkipped(TestIdentifier test, String reason) {
        TestIdentifier top = top(test);
        if (top == null) return;
        if (test.equals(top)) start(test);
        result(test, top, "skipped", reason);
        if (test.equals(top)) line("event", test, ", \"kind\": \"closed\"");
    }

    @Override
    public synchronized void executionFinished(TestIdentifier test, TestExecutionResult ended) {
        TestIdentifier top = top(test);
        if (top == null) return;
        boolean whole = test.equals(top);
        String outcome = test.isTest() ? "failed" : "errored";
        if (ended.getStatus() == TestExecutionResult.Status.ABORTED) outcome = "skipped";
        if (ended.getStatus() == TestExecutionResult.Status.SUCCESSFUL) outcome = "passed";
        // Of a container, only what went wrong is a result; a class without any test passes.
        if (test.isTest() || !outcome.equals("passed") || (whole && !reported.contains(top.getUniqueId()))) {
            result(test, top, outcome, ended.getThrowable().map(CiguardListener::message).orElse(""));
        }
        if (whole) line("event", test, ", \"kind\": \"closed\"");
    }

    /** Surefire runs a class again for the tests that failed in it (rerunFailingTestsCount). */
    private void start(TestIdentifier top) {
        tries.merge(top.getUniqueId(), 1, Integer::sum);
        line("start", top, "");
    }

    /** A further test of the same name in its class is another one; the same test again, a try. */
    private void result(TestIdentifier test, TestIdentifier top, String outcome, String message) {
        StringBuilder more = new StringBuilder(", ").append(field("outcome", outcome));
        String id = test.getUniqueId();
        reported.add(top.getUniqueId());
        if (!test.equals(top)) more.append(", ").append(field("case", name(test, top)));
        more.append(", \"try\": ").append(tries.get(top.getUniqueId()));
        Long at = begun.get(id);
        if (at != null) more.append(", \"wall_s\": ").append(seconds((System.nanoTime() - at) / 1e9));
        if (!message.isEmpty()) more.append(", ").append(field("message", truncated(message)));
        line("result", top, more.toString());
    }

    /** Of a case, with a number where its class has others of that name. */
    private String name(TestIdentifier test, TestIdentifier top) {
        String name = test.getDisplayName();
        for (TestIdentifier at = parent(test); !at.equals(top); at = parent(at)) {
            name = at.getDisplayName() + " > " + name;
        }
        name = name.substring(0, Math.min(name.length(), NAME_CHARACTERS));
        List<String> same = names.computeIfAbsent(top.getUniqueId() + name, key -> new ArrayList<>());
        if (!same.contains(test.getUniqueId())) same.add(test.getUniqueId());
        int number = same.indexOf(test.getUniqueId()) + 1;
        return number == 1 ? name : name + " #" + number;
    }

    private static void event(String kind, String more) {
        write("{" + field("type", "event") + ", " + field("kind", kind) + ", " + now() + more + "}\n");
    }

    private void line(String type, TestIdentifier top, String more) {
        String unit = field("unit", className(top.getSource(), ""));
        write("{" + field("type", type) + ", " + unit + ", " + now() + more + "}\n");
    }

    private static String now() {
        return "\"at_s\": " + seconds(BEGAN_S + (System.nanoTime() - BEGAN_NS) / 1e9);
    }

    /** The class of a unit that holds the test; null for none of ours. */
    private TestIdentifier top(TestIdentifier test) {
        TestIdentifier found = null;
        for (TestIdentifier at = test; plan != null && at != null; at = parent(at)) {
            if (!className(at.getSource(), "").isEmpty()) found = at;
        }
        boolean other = found == null || !UNITS.isEmpty() && !UNITS.contains(className(found.getSource(), ""));
        return other ? null : found;
    }

    private TestIdentifier parent(TestIdentifier test) {
        return plan.getParent(test).orElse(null);
    }

    private static String className(Optional<TestSource> source, String otherwise) {
        return source.filter(ClassSource.class::isInstance)
            .map(found -> ((ClassSource) found).getClassName()).orElse(otherwise);
    }

    /** Path from Maven's top folder, by convention: the listener knows no source; "" for none. */
    private static String fileOf(String unit) {
        Path module = Paths.get(System.getProperty("basedir", System.getProperty("user.dir")));
        String top = System.getenv("MAVEN_PROJECTBASEDIR");
        for (String language : new String[] {"java", "kotlin", "groovy", "scala"}) {
            String extension = language.equals("kotlin") ? "kt" : language;
            Path file = module.resolve("src/test/" + language + "/" + unit.replace('.', '/') + "." + extension);
            if (!Files.exists(file)) continue;
            Path root = top == null || top.isEmpty() ? module : Paths.get(top);
            return root.relativize(file).toString().replace(File.separatorChar, '/');
        }
        return "";
    }

    private static String message(Throwable error) {
        StringWriter text = new StringWriter();
        try {
            error.printStackTrace(new PrintWriter(text, true));
        } catch (RuntimeException broken) { // its own getMessage() may fail
            text.write(error.getClass().getName());
        }
        return text.toString();
    }

    private static String truncated(String text) {
        byte[] bytes = text.replaceAll("\u001b\\[[0-9;]*m", "").getBytes(StandardCharsets.UTF_8);
        String start = new String(bytes, 0, Math.min(bytes.length, MESSAGE_BYTES), StandardCharsets.UTF_8);
        return start.replaceAll("\ufffd+$", "");
    }

    private static String seconds(double value) {
        return Double.toString(Math.round(value * 1e6) / 1e6);
    }

    /** In ASCII, so that a lone surrogate breaks no line. */
    private static String field(String name, String value) {
        StringBuilder text = new StringBuilder("\"").append(name).append("\": \"");
        for (char c : value.toCharArray()) {
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < ' ' || c > '~') text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        }
        return text.append('"').toString();
    }

    /** One call a write, which is what keeps lines whole; a full disk breaks no test. */
    private static void write(String lines) {
        try {
            RECORD.write(lines.getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) { /* the leg finds out */ }
    }

    private static OutputStream open(String list, String record) {
        String file = list.isEmpty() ? record : list;
        try {
            return file.isEmpty() ? null : new FileOutputStream(file, true);
        } catch (IOException error) {
            return null;
        }
    }

    private static Set<String> units(String file) {
        try {
            return file.isEmpty() ? new HashSet<>() : new HashSet<>(Files.readAllLines(Paths.get(file)));
        } catch (IOException error) {
            throw new IllegalStateException("ciguard: " + file + " cannot be read", error);
        }
    }

    private static double origin() {
        String value = System.getenv("CIGUARD_ORIGIN_AT");
        return value == null ? 0 : Double.parseDouble(value);
    }
}
