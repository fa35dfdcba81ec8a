require "test_helper"

class BeforeItsImportTest < Minitest::Test
  def test_is_not_run = pass
end

raise "fails at import" if ENV["WAY"] == "import"
exit if ENV["WAY"] == "import exit"
Process.kill(:KILL, Process.pid) if ENV["WAY"] == "import kill"
require "no_such_library" if ENV["WAY"] == "import library"

class ImportsTest < Minitest::Test
  def test_needs_its_import = pass
end
