// Package certificates holds the admission plugins of Kubernetes that guard CertificateSigningRequests
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/):
//
//   - [Approval] (CertificateApproval): to approve or to deny a request, a user needs the verb approve
//     for its signer.
//   - [Signing] (CertificateSigning): to write the certificate or the conditions of a request by its
//     status, a user needs the verb sign for its signer.
//   - [SubjectRestriction] (CertificateSubjectRestriction): no user can request a client certificate of
//     the group system:masters from the signer kubernetes.io/kube-apiserver-client.
//
// The verbs are those on the resource signers of certificates.k8s.io, for the name of the signer
// (example.com/ca) or for its domain (example.com/*). An authorizer that fails grants nothing.
//
//	approval, err := certificates.NewApproval(certificates.Config{Authorizer: may})
//	chain := admission.Chain{Validators: []admission.Validator{approval, certificates.SubjectRestriction{}}}
//
// The signer is that of the stored object: an update cannot change it.
package certificates

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/signers"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// The names of the plugins in --enable-admission-plugins.
const (
	ApprovalName           = "CertificateApproval"
	SigningName            = "CertificateSigning"
	SubjectRestrictionName = "CertificateSubjectRestriction"
)

// Config configures Approval and Signing. Authorizer is required.
type Config struct {
	// Authorizer decides who may approve and sign for a signer.
	Authorizer authz.Authorizer
}

// Approval is an [admission.Validator].
type Approval struct{ config Config }

// NewApproval returns the plugin.
func NewApproval(c Config) (*Approval, error) {
	if c.Authorizer == nil {
		return nil, errors.New("certificates: Authorizer must be set")
	}
	return &Approval{c}, nil
}

// Validate refuses to decide about a request of a signer for whom the user may not approve.
func (p *Approval) Validate(ctx context.Context, r *admission.Request) error {
	if !about(r, "approval", admission.Update) {
		return nil
	}
	old, err := request(r, r.OldObject)
	if err != nil {
		return err
	}
	if !signers.May(ctx, p.config.Authorizer, r.User, "approve", old.Spec.SignerName) {
		return admission.Forbidden(r, fmt.Errorf("user not permitted to approve requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}

// Signing is an [admission.Validator].
type Signing struct{ config Config }

// NewSigning returns the plugin.
func NewSigning(c Config) (*Signing, error) {
	if c.Authorizer == nil {
		return nil, errors.New("certificates: Authorizer must be set")
	}
	return &Signing{c}, nil
}

// Validate refuses to change the certificate or the conditions of a request of a signer for whom the
// user may not sign.
func (p *Signing) Validate(ctx context.Context, r *admission.Request) error {
	if !about(r, "status", admission.Update) {
		return nil
	}
	old, err := request(r, r.OldObject)
	if err != nil {
		return err
	}
	changed, err := request(r, r.Object)
	if err != nil {
		return err
	}
	if bytes.Equal(old.Status.Certificate, changed.Status.Certificate) && equality.Semantic.DeepEqual(old.Status.Conditions, changed.Status.Conditions) {
		return nil
	}
	if !signers.May(ctx, p.config.Authorizer, r.User, "sign", old.Spec.SignerName) {
		return admission.Forbidden(r, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}

// SubjectRestriction is an [admission.Validator].
type SubjectRestriction struct{}

// Validate refuses to request a client certificate of the group system:masters.
func (SubjectRestriction) Validate(_ context.Context, r *admission.Request) error {
	if !about(r, "", admission.Create) {
		return nil
	}
	wanted, err := request(r, r.Object)
	if err != nil {
		return err
	}
	if wanted.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	parsed, err := parse(wanted.Spec.Request)
	if err != nil {
		return admission.Forbidden(r, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(parsed.Subject.Organization, user.Masters) {
		return admission.Forbidden(r, fmt.Errorf("use of %s signer with %s group is not allowed", certificatesv1.KubeAPIServerClientSignerName, user.Masters))
	}
	return nil
}

// parse returns the PKCS #10 request in a PEM block.
func parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// about reports whether r is an operation on a subresource of signing requests.
func about(r *admission.Request, subresource string, operation admission.Operation) bool {
	return r.Resource.Group == certificatesv1.GroupName && r.Resource.Resource == "certificatesigningrequests" &&
		r.Subresource == subresource && r.Operation == operation
}

// request returns an object of r as a signing request.
func request(r *admission.Request, object any) (*certificatesv1.CertificateSigningRequest, error) {
	out, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil, admission.Forbidden(r, fmt.Errorf("expected type CertificateSigningRequest, got: %T", object))
	}
	return out, nil
}
