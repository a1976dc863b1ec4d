package policystatus

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/localcache"
	registration "k8s.io/api/admissionregistration/v1"
)

// TestConfig checks that the constructor refuses an incomplete configuration and names what is missing.
func TestConfig(t *testing.T) {
	if _, err := New(Config{}); fmt.Sprint(err) != "policystatus: Config: no Policies" {
		t.Error(err)
	}
	if _, err := New(Config{Policies: localcache.NewMap[*registration.ValidatingAdmissionPolicy]()}); fmt.Sprint(err) != "policystatus: Config: no Writer" {
		t.Error(err)
	}
}
