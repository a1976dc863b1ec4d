package account

import (
	"fmt"
	"testing"
)

// TestConfig checks that constructors refuse an empty configuration and name what is missing.
func TestConfig(t *testing.T) {
	failure := func(_ any, err error) string { return fmt.Sprint(err) }
	for want, got := range map[string]string{
		"account: ServiceAccountConfig: no Namespaces": failure(NewServiceAccount(ServiceAccountConfig{})),
		"account: TokenConfig: no ServiceAccounts":     failure(NewToken(TokenConfig{})),
		"account: RootCAConfig: no Namespaces":         failure(NewRootCA(RootCAConfig{})),
	} {
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}
