package certificates

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn/user"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

type request = certificatesv1.CertificateSigningRequest

// ApprovalUpdater replaces the conditions of requests through the subresource approval. A write is
// refused if the resource version has changed.
type ApprovalUpdater interface {
	UpdateApproval(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error)
}

// parse returns the PKCS #10 request in a PEM block.
func parse(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if key, ok := parsed.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
		return nil, fmt.Errorf("the RSA key has %d bits, of at most %d", key.N.BitLen(), maxRSABits)
	}
	return parsed, nil
}

// maxRSABits is the size of the largest RSA key, as crypto/tls has it: to verify a signature takes time that
// grows with its square.
const maxRSABits = 8192

// has reports whether a request has a condition of a type, whatever its status.
func has(r *request, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
}

// isPending reports whether a request has no decision yet.
func isPending(r *request) bool {
	return len(r.Status.Certificate) == 0 && !has(r, certificatesv1.CertificateApproved) && !has(r, certificatesv1.CertificateDenied)
}

// approved returns a copy of a request with the condition Approved.
func approved(r *request, message string) *request {
	out := r.DeepCopy()
	out.Status.Conditions = append(out.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	return out
}

var (
	errOrganization = errors.New("subject organization is not system:nodes")
	//lint:ignore ST1005 these are the words of Kubernetes
	errCommonName = errors.New("subject common name does not begin with system:node:")
	errNames      = errors.New("DNS or IP subjectAltName is required")
	errDNS        = errors.New("DNS subjectAltNames are not allowed")
	//lint:ignore ST1005 these are the words of Kubernetes
	errEmail = errors.New("Email subjectAltNames are not allowed")
	errIP    = errors.New("IP subjectAltNames are not allowed")
	errURI   = errors.New("URI subjectAltNames are not allowed")
)

// checkNodeClient returns why a request is not one for the client certificate of a node.
func checkNodeClient(parsed *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !isOfNodes(parsed):
		return errOrganization
	case len(parsed.DNSNames) > 0:
		return errDNS
	case len(parsed.EmailAddresses) > 0:
		return errEmail
	case len(parsed.IPAddresses) > 0:
		return errIP
	case len(parsed.URIs) > 0:
		return errURI
	}
	if err := checkNodeName(parsed); err != nil {
		return err
	}
	return checkNodeUsages(usages, certificatesv1.UsageClientAuth)
}

// checkNodeServing returns why a request is not one for the serving certificate of a node.
func checkNodeServing(parsed *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !isOfNodes(parsed):
		return errOrganization
	case len(parsed.DNSNames) == 0 && len(parsed.IPAddresses) == 0:
		return errNames
	case len(parsed.EmailAddresses) > 0:
		return errEmail
	case len(parsed.URIs) > 0:
		return errURI
	}
	if err := checkNodeUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	return checkNodeName(parsed)
}

// checkNodeName requires the user of a node as the common name.
func checkNodeName(parsed *x509.CertificateRequest) error {
	name, ok := strings.CutPrefix(parsed.Subject.CommonName, user.NodePrefix)
	if !ok {
		return errCommonName
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("subject common name: %q is not the name of a node: %s", name, problems[0])
	}
	return nil
}

func isOfNodes(parsed *x509.CertificateRequest) bool {
	return slices.Equal(parsed.Subject.Organization, []string{user.Nodes})
}

// checkNodeUsages requires the usages of a certificate of a node. Key encipherment is for RSA keys.
func checkNodeUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	required := []certificatesv1.KeyUsage{purpose, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	slices.Sort(required)
	sorted := slices.Clone(usages)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	withoutRSA := slices.DeleteFunc(slices.Clone(required), func(u certificatesv1.KeyUsage) bool { return u == certificatesv1.UsageKeyEncipherment })
	if slices.Equal(sorted, required) || slices.Equal(sorted, withoutRSA) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", required)
}

// checkClient returns why usages are not those of a client certificate.
func checkClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}
