package serviceaddress

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"serviceaddress: RangesConfig: no ServiceCIDRs": failure(NewRanges(RangesConfig{})),
		"serviceaddress: RepairConfig: no Services":     failure(NewRepair(RepairConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
