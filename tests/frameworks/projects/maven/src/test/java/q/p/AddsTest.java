package q.p;

import org.junit.jupiter.api.Test;

class AddsTest { @Test void endsWithTheNameOfAnother() {} }
