package bootstrap

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"bootstrap: SignerConfig: no ConfigMaps":    failure(NewSigner(SignerConfig{})),
		"bootstrap: TokenCleanerConfig: no Secrets": failure(NewTokenCleaner(TokenCleanerConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
