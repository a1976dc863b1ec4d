// Package signers asks an authorizer what a user may do for a signer of certificates
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#authorization).
package signers

import (
	"context"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	certificatesv1 "k8s.io/api/certificates/v1"
)

// May reports whether the user has the verb on the resource signers of certificates.k8s.io, for the
// name of the signer (example.com/ca) or for its domain (example.com/*). An authorizer that fails
// grants nothing.
func May(ctx context.Context, a authz.Authorizer, u *user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := a.Authorize(ctx, authz.Attributes{
			User: u, Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name,
		})
		if decision == authz.Allow && err == nil {
			return true
		}
	}
	return false
}
