--TEST--
a page
--FILE--
<?php echo 2 + 2;
--EXPECT--
4
