package signers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/planekit/planekit/admission/internal/signers"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

func Example() {
	granted := authz.Func(func(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
		if at.Verb == "sign" && at.Group == "certificates.k8s.io" && at.Resource == "signers" && at.Name == "example.com/*" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	ann := &user.Info{Name: "ann"}
	fmt.Println(signers.May(context.Background(), granted, ann, "sign", "example.com/ca"))
	fmt.Println(signers.May(context.Background(), granted, ann, "approve", "example.com/ca"))
	fmt.Println(signers.May(context.Background(), granted, ann, "sign", "example.org/ca"))
	// Output:
	// true
	// false
	// false
}

func TestFailureGrantsNothing(t *testing.T) {
	broken := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.Allow, "", errors.New("broken")
	})
	if signers.May(t.Context(), broken, &user.Info{Name: "ann"}, "sign", "example.com/ca") {
		t.Error("a broken authorizer grants")
	}
}
