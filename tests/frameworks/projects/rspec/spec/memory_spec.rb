RSpec.describe "memory" do
  it "is that of 150 MiB" do
    sleep 0.2
    kept = "x" * (150 << 20)
    sleep 0.2
    expect(kept.size).to eq 150 << 20
  end
end
