require "test_helper"

# What ends the process, or never ends, where WAY says so.
class EndsTest < Minitest::Test
  WAYS = {
    "kill" => -> { Process.kill(:KILL, Process.pid) },
    "exit0" => -> { exit(0) },
    "exit!0" => -> { exit!(0) },
    "exit3" => -> { exit(3) },
    "exit!1" => -> { exit!(1) },
    "abort" => -> { abort "gone" },
    "hang" => -> { sleep },
    "heap" => -> { "x" * (1 << 62) },
    "fork" => -> { fork; Process.waitall },
    "fork exit" => -> { fork { exit }; Process.waitall },
  }.freeze

  def test_before = pass

  def test_ends = WAYS[ENV["WAY"]]&.call

  def test_last = pass
end

class AnotherClassTest < Minitest::Test
  def test_is_in_the_same_file = pass
end
