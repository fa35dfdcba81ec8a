<?php
require 'way.php'; // by the include path of the configuration
