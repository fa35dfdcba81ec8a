require "minitest/test_task"

Minitest::TestTask.create { |task| task.test_prelude = 'require "test_helper"' }
