RSpec.describe("before its import") { it("is not run") {} }
raise "fails at import" if ENV["WAY"] == "import"
exit if ENV["WAY"] == "import exit"
exit!(0) if ENV["WAY"] == "import exit!"
Process.kill(:KILL, Process.pid) if ENV["WAY"] == "import kill"
RSpec.describe("imports") { it("needs its import") {} }
