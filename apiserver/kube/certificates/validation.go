package certificates

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// legacySigner is the signer that version v1 of the API does not accept.
const legacySigner = "kubernetes.io/legacy-unknown"

// minExpirationSeconds is the shortest duration that a request may ask for.
const minExpirationSeconds = 600

// maxRSABits is the size of the largest RSA key, as crypto/tls has it. To verify a signature takes time
// that grows with its square: 10 s for 262,144 bits, which fit into 64 KiB.
const maxRSABits = 8192

// usages are the valid usages, in the order of the message.
var usages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment, certificatesv1.UsageDecipherOnly,
	certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection, certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem,
	certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning, certificatesv1.UsageSMIME,
	certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping,
}

// changes are the parts of the status that an update may change.
type changes struct {
	// decisions allows the conditions Approved and Denied to be added and changed.
	decisions bool
	// certificate allows the certificate to be set.
	certificate bool
}

// tolerance has the rules that an update of an object may break because the object does already.
type tolerance struct {
	contradiction, legacySigner, duplicateConditions, emptyConditions bool
	certificate, unknownUsages, duplicateUsages                       bool
}

// tolerated returns what an update from old to r may break. A new object has no old.
func tolerated(r, old *request) tolerance {
	if old == nil {
		return tolerance{}
	}
	var t tolerance
	t.contradiction = len(indices(old, certificatesv1.CertificateApproved)) > 0 && len(indices(old, certificatesv1.CertificateDenied)) > 0
	t.legacySigner = old.Spec.SignerName == legacySigner
	t.certificate = bytes.Equal(r.Status.Certificate, old.Status.Certificate) || checkCertificates(old.Status.Certificate) != nil
	for i, c := range old.Status.Conditions {
		t.emptyConditions = t.emptyConditions || c.Type == ""
		t.duplicateConditions = t.duplicateConditions || indices(old, c.Type)[0] != i
	}
	seen := check.Seen[certificatesv1.KeyUsage]{}
	for _, usage := range old.Spec.Usages {
		t.unknownUsages = t.unknownUsages || !slices.Contains(usages, usage)
		t.duplicateUsages = t.duplicateUsages || seen.Again(usage)
	}
	return t
}

// checkRequest checks a whole object.
func checkRequest(r *request, t tolerance) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	if err := checkSigningRequest(r.Spec.Request); err != nil {
		ps.Add(field.Invalid(p.Child("request"), r.Spec.Request, err.Error()))
	}
	checkUsages(&ps, p.Child("usages"), r.Spec.Usages, t)
	switch signer := r.Spec.SignerName; {
	case signer == legacySigner && !t.legacySigner:
		ps.Add(field.Invalid(p.Child("signerName"), signer, "the legacy signerName is not allowed via this API version"))
	case ps.Required(p.Child("signerName"), signer):
		checkSigner(&ps, p.Child("signerName"), signer)
	}
	if seconds := r.Spec.ExpirationSeconds; seconds != nil {
		ps.Valid(*seconds >= minExpirationSeconds, p.Child("expirationSeconds"), *seconds, "may not specify a duration less than 600 seconds (10 minutes)")
	}
	checkRequestConditions(&ps, field.NewPath("status", "conditions"), r, t)
	if !t.certificate {
		if err := checkCertificates(r.Status.Certificate); err != nil {
			ps.Add(field.Invalid(field.NewPath("status", "certificate"), "<certificate data>", err.Error()))
		}
	}
	return ps.List
}

// checkSigningRequest requires a PEM block with a PKCS #10 request that its own key signed.
func checkSigningRequest(data []byte) error {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	if key, ok := parsed.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
		return fmt.Errorf("the RSA key has %d bits, of at most %d", key.N.BitLen(), maxRSABits)
	}
	return parsed.CheckSignature()
}

func checkUsages(ps *check.Problems, p *field.Path, list []certificatesv1.KeyUsage, t tolerance) {
	ps.Present(len(list) > 0, p, "")
	seen := map[certificatesv1.KeyUsage]bool{}
	for i, usage := range list {
		if !t.unknownUsages {
			check.OneOf(ps, p.Index(i), usage, usages...)
		}
		ps.Unique(t.duplicateUsages || !seen[usage], p.Index(i), usage)
		seen[usage] = true
	}
}

func checkRequestConditions(ps *check.Problems, p *field.Path, r *request, t tolerance) {
	seen := map[certificatesv1.RequestConditionType]bool{}
	for i, c := range r.Status.Conditions {
		at := p.Index(i)
		ps.Present(t.emptyConditions || c.Type != "", at.Child("type"), "")
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			check.RequiredOneOf(ps, at.Child("status"), c.Status, corev1.ConditionTrue)
		default:
			check.RequiredOneOf(ps, at.Child("status"), c.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
		contradicts := c.Type == certificatesv1.CertificateApproved && seen[certificatesv1.CertificateDenied] ||
			c.Type == certificatesv1.CertificateDenied && seen[certificatesv1.CertificateApproved]
		ps.Valid(t.contradiction || !contradicts, p, c.Type, "Approved and Denied conditions are mutually exclusive")
		ps.Unique(t.duplicateConditions || !seen[c.Type], at.Child("type"), c.Type)
		seen[c.Type] = true
	}
}

// checkCertificates requires nothing, or PEM blocks with certificates. Text between the blocks is
// allowed.
func checkCertificates(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	blocks := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) != 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		blocks++
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

// checkRequestUpdate checks a change of an object that may change the parts of the status in may.
func checkRequestUpdate(r, old *request, may changes) field.ErrorList {
	var ps check.Problems
	ps.All(checkRequest(r, tolerated(r, old)))
	p := field.NewPath("status")
	for _, kind := range append(slices.Clone(decisions), certificatesv1.CertificateFailed) {
		ps.Allowed(len(indices(r, kind)) >= len(indices(old, kind)), p.Child("conditions"), fmt.Sprintf("updates may not remove a condition of type %q", kind))
	}
	if !may.decisions {
		checkDecisions(&ps, p.Child("conditions"), r, old)
	}
	if !bytes.Equal(r.Status.Certificate, old.Status.Certificate) {
		ps.Allowed(may.certificate, p.Child("certificate"), "updates may not set certificate content")
		ps.Allowed(!may.certificate || len(old.Status.Certificate) == 0, p.Child("certificate"), "updates may not modify existing certificate content")
	}
	return ps.List
}

// checkDecisions refuses to add or to change the conditions Approved and Denied.
func checkDecisions(ps *check.Problems, p *field.Path, r, old *request) {
	for _, kind := range decisions {
		now, before := conditionsOf(r, kind), conditionsOf(old, kind)
		switch {
		case len(now) > len(before):
			ps.Add(field.Forbidden(p, fmt.Sprintf("updates may not add a condition of type %q", kind)))
		case len(now) == len(before) && !equality.Semantic.DeepEqual(now, before):
			ps.Add(field.Forbidden(p, fmt.Sprintf("updates may not modify a condition of type %q", kind)))
		}
	}
}

func conditionsOf(r *request, kind certificatesv1.RequestConditionType) (out []certificatesv1.CertificateSigningRequestCondition) {
	for _, at := range indices(r, kind) {
		out = append(out, r.Status.Conditions[at])
	}
	return out
}
