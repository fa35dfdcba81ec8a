raise "fails in spec_helper" if ENV["WAY"] == "helper"

RSpec.configure do |config|
  config.order = :random
  config.before(:suite) { raise "fails before the suite" if ENV["WAY"] == "suite" }
  config.after(:suite) { raise "fails after the suite" if ENV["WAY"] == "after suite" }
end

RSpec.shared_examples "a shared one" do
  it("is shared") {}
end
