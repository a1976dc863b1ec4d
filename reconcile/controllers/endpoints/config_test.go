package endpoints

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"endpoints: Config: no Services":       failure(New(Config{})),
		"endpoints: SliceConfig: no Services":  failure(NewSlices(SliceConfig{})),
		"endpoints: MirrorConfig: no Services": failure(NewMirror(MirrorConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
