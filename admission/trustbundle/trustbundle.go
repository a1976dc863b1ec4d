// Package trustbundle refuses ClusterTrustBundles of signers for whom the user may not speak: the
// ClusterTrustBundleAttest plugin of Kubernetes
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#clustertrustbundleattest).
//
//	plugin, err := trustbundle.New(trustbundle.Config{Authorizer: may})
//	chain := admission.Chain{Validators: []admission.Validator{plugin}}
//
// To create or update a bundle with a signer name, a user needs the verb attest on the resource signers
// of certificates.k8s.io, for the name of the signer (example.com/ca) or for its domain
// (example.com/*). An update that changes only finalizers and owners passes, and so does a bundle
// without a signer. An authorizer that fails grants nothing.
//
// The name of the signer is taken from the new object: validation refuses to change it.
package trustbundle

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/collection"
	"github.com/planekit/planekit/admission/internal/signers"
	"github.com/planekit/planekit/authz"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "ClusterTrustBundleAttest"

// Config configures the plugin. Authorizer is required.
type Config struct {
	// Authorizer decides who may attest for a signer.
	Authorizer authz.Authorizer
}

// Plugin is an [admission.Validator].
type Plugin struct{ config Config }

// New returns the plugin.
func New(c Config) (*Plugin, error) {
	if c.Authorizer == nil {
		return nil, errors.New("trustbundle: Authorizer must be set")
	}
	return &Plugin{c}, nil
}

// Validate refuses to write the bundle of a signer for whom the user may not attest.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Resource.Group != certificatesv1beta1.GroupName || r.Resource.Resource != "clustertrustbundles" ||
		r.Operation != admission.Create && r.Operation != admission.Update {
		return nil
	}
	bundle, ok := r.Object.(*certificatesv1beta1.ClusterTrustBundle)
	if !ok {
		return admission.Forbidden(r, fmt.Errorf("expected type ClusterTrustBundle, got: %T", r.Object))
	}
	signer := bundle.Spec.SignerName
	if signer == "" || collection.Only(r, bundle) {
		return nil
	}
	if signers.May(ctx, p.config.Authorizer, r.User, "attest", signer) {
		return nil
	}
	return admission.Forbidden(r, fmt.Errorf("user not permitted to attest for signerName %q", signer))
}
