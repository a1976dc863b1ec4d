package audit_test

import (
	"net/http/httptest"
	"testing"

	"github.com/planekit/planekit/apiserver/audit"
	"github.com/planekit/planekit/authz"
)

func TestTokensAreNeverWanted(t *testing.T) {
	policy, err := audit.ParsePolicy([]byte(head + "rules: [{level: RequestResponse}]"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.New(audit.Config{Policy: policy, Out: &sink{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		a    authz.Attributes
		want bool
	}{
		{authz.Attributes{Verb: "create", Resource: "serviceaccounts"}, true},
		{authz.Attributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token"}, false},
		{authz.Attributes{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}, false},
		{authz.Attributes{Verb: "create", Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, true},
	} {
		request, answer := log.Begin(httptest.NewRequest("POST", "/", nil), test.a).Wants()
		if request != test.want || answer != test.want {
			t.Errorf("Wants of %+v = %t, %t, want %t for both", test.a, request, answer, test.want)
		}
	}
}
