RSpec.describe("sums") { it("of the same name in another folder") {} }
