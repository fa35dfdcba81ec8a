require "test_helper"

class SetupTest < Minitest::Test
  def setup = (raise "fails in set-up" if ENV["WAY"] == "setup")

  def teardown = (raise "fails in tear-down" if ENV["WAY"] == "teardown")

  def test_one = pass
end
