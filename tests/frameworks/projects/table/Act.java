package p;
import java.io.FileOutputStream;
import java.nio.file.*;
class Act {
  static void at(String place) throws Exception {
    String what = String.valueOf(System.getenv("ACT"));
    Path file = Paths.get(System.getenv("MARKS"), place);
    if (!place.equals("hook")) {
      org.junit.jupiter.api.Assumptions.assumeFalse(what.equals("skip"));
      Files.write(file, "ran\n".getBytes(), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
    if (!place.equals(System.getenv("AT"))) return;
    switch (what) {
      case "exit": System.exit(0); break;
      case "kill":
        new ProcessBuilder("kill", "-9", "" + ProcessHandle.current().pid()).start().waitFor();
        Thread.sleep(5000); break;
      case "flood": System.out.print("x".repeat(3 << 20)); break;
      case "close":
        new FileOutputStream(java.io.FileDescriptor.out).close();
        new FileOutputStream(java.io.FileDescriptor.err).close(); break;
      case "wait": Thread.sleep(60000); break;
      case "flaky": if (Files.readAllLines(file).size() == 1) throw new Exception("flaky");
    }
  }
}
