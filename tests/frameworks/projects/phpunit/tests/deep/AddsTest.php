<?php
namespace Shop\Deep;

require_once __DIR__ . "/../AddsTest.php";

class AddsTest extends \Shop\AddsTest
{
}
