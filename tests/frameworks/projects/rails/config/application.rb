require "rails"
require "rails/test_unit/railtie"

class Shop < Rails::Application
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "x" * 32
end
