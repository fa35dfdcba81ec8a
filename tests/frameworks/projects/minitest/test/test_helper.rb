raise "fails in test_helper" if ENV["WAY"] == "helper"

require "minitest/autorun"

Minitest.after_run { ENV["WAY"] == "after" ? raise("fails after the run") : puts("after the run") }
