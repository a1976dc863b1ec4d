package garbage

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"garbage: Config: no Kinds":                failure(New(Config{})),
		"garbage: Config: kind 0 () is incomplete": failure(New(Config{Kinds: []Kind{{}}})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
