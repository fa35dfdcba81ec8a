# What ends the process, or never ends, where WAY says so.
WAYS = {
  "kill" => -> { Process.kill(:KILL, Process.pid) },
  "exit0" => -> { exit(0) },
  "exit!0" => -> { exit!(0) },
  "exit3" => -> { exit(3) },
  "abort" => -> { abort "gone" },
  "hang" => -> { sleep },
  "heap" => -> { "x" * (1 << 62) },
  "fork" => -> { fork; Process.waitall },
}.freeze

RSpec.describe "ends" do
  %w[before ends behind].each { |name| it(name) { WAYS[ENV["WAY"]]&.call if name == "ends" } }
end

RSpec.describe("another group") { it("is in the same file") {} }
