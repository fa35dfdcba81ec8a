require "test_helper"

class MemoryTest < Minitest::Test
  def test_holds_150_mib
    sleep 0.2
    kept = "x" * (150 << 20)
    sleep 0.2
    assert_equal 150 << 20, kept.size
  end
end
