package anonymous_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
)

func Example() {
	chain := authn.Chain{anonymous.Authenticator{Paths: []string{"/livez"}}}
	for _, path := range []string{"/livez", "/api/v1/pods"} {
		u, known, err := chain.Authenticate(httptest.NewRequest("GET", path, nil))
		fmt.Println(path, u, known, err)
	}
	// Output:
	// /livez &{system:anonymous  [system:unauthenticated] map[]} true <nil>
	// /api/v1/pods <nil> false <nil>
}

func TestCredentialsAreNeverAnonymous(t *testing.T) {
	for _, header := range []string{"Bearer x", "Basic eDp5", ""} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{header}
		if _, known, err := (anonymous.Authenticator{}).Authenticate(r); known || err != nil {
			t.Errorf("%q: known %v, error %v", header, known, err)
		}
	}
}
