package volume

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"volume: BinderConfig: no Claims":          failure(NewBinder(BinderConfig{})),
		"volume: EphemeralConfig: no Pods":         failure(NewEphemeral(EphemeralConfig{})),
		"volume: ClaimProtectionConfig: no Claims": failure(NewClaimProtection(ClaimProtectionConfig{})),
		"volume: ProtectionConfig: no Volumes":     failure(NewProtection(ProtectionConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
