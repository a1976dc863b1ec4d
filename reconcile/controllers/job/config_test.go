package job

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"job: Config: no Jobs":                 failure(New(Config{})),
		"job: TTLAfterFinishedConfig: no Jobs": failure(NewTTLAfterFinished(TTLAfterFinishedConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
