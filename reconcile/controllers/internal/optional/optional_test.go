package optional

import "testing"

func TestValue(t *testing.T) {
	three := 3
	if got := Value(&three, 1); got != 3 {
		t.Errorf("Value(&3, 1) = %d", got)
	}
	if got := Value(nil, 1); got != 1 {
		t.Errorf("Value(nil, 1) = %d", got)
	}
}
